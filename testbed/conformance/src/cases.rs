//! The cases, one file per section of the rules. Every case states one rule.

mod admission;
mod admission_inputs;
mod admission_refused;
mod apply;
mod apply_refused;
mod apply_types;
mod crd;
mod create;
mod deletion;
mod discovery;
mod errors;
mod faults;
mod garbage;
mod kinds;
mod kinds_table;
mod lease;
mod list;
mod malformed;
mod managers;
mod openapi;
mod protobuf;
mod rbac;
mod rule_costs;
mod rules;
mod samples;
mod schema;
mod status;
mod strategic;
mod subresources;
mod versions;
mod watch;
mod workloads;

use crate::case::Case;

/// Every case of the suite.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        versions::CASES,
        create::CASES,
        status::CASES,
        strategic::CASES,
        subresources::CASES,
        apply::CASES,
        managers::CASES,
        apply_types::CASES,
        apply_refused::CASES,
        deletion::CASES,
        garbage::CASES,
        watch::CASES,
        rules::CASES,
        workloads::CASES,
        list::CASES,
        errors::CASES,
        malformed::CASES,
        schema::CASES,
        crd::CASES,
        discovery::CASES,
        openapi::CASES,
        lease::CASES,
        kinds::CASES,
        kinds_table::CASES,
        rbac::CASES,
        protobuf::CASES,
        admission::CASES,
        admission_inputs::CASES,
        admission_refused::CASES,
        rule_costs::CASES,
        faults::CASES,
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
