//! The cases, one file per section of the rules. Every case states one rule.

mod apply;
mod apply_refused;
mod apply_types;
mod crd;
mod create;
mod deletion;
mod discovery;
mod errors;
mod garbage;
mod kinds;
mod lease;
mod list;
mod malformed;
mod managers;
mod rbac;
mod samples;
mod schema;
mod status;
mod trouble;
mod versions;
mod watch;

use crate::case::Case;

/// Every case of the suite.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        versions::CASES,
        create::CASES,
        status::CASES,
        apply::CASES,
        managers::CASES,
        apply_types::CASES,
        apply_refused::CASES,
        deletion::CASES,
        garbage::CASES,
        watch::CASES,
        list::CASES,
        errors::CASES,
        malformed::CASES,
        schema::CASES,
        crd::CASES,
        discovery::CASES,
        lease::CASES,
        kinds::CASES,
        rbac::CASES,
        trouble::CASES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_namespaces_are_unique() {
        let cases = all();
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        let namespaces: BTreeSet<_> = cases.iter().map(Case::namespace).collect();
        assert_eq!((names.len(), namespaces.len()), (cases.len(), cases.len()));
    }
}
