//! What objects use of the quotas of their namespace, and whether it fits.
//!
//! Pure: the caller says what else is there and what time it is, and stores what is charged.

pub(super) mod amounts;
mod claims;
mod devices;
mod evaluator;
mod pods;
mod request;
mod scopes;
mod services;
pub(super) mod sum;
mod total;

pub(crate) use evaluator::Evaluator;
pub(crate) use request::{Asked, Charge, charged};
pub(crate) use total::{frees, hard_changes, status};

use jiff::Timestamp;

use super::plugins::Peers;

/// What is known besides the object in question.
pub(crate) struct Around<'a> {
    /// What else is in the namespace.
    pub(crate) peers: &'a Peers<'a>,
    /// Pods that should long be gone count no more.
    pub(crate) now: Timestamp,
}
