//! The cases, one file per section of the rules. Every case states one rule.

mod apply;
mod apply_refused;
mod apply_types;
mod create;
mod deletion;
mod list;
mod samples;
mod status;
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
        apply_types::CASES,
        apply_refused::CASES,
        deletion::CASES,
        watch::CASES,
        list::CASES,
    ]
    .concat()
}
