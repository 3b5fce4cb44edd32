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

pub use evaluator::Evaluator;
pub use request::{Charge, QuotaRequest, charged};
pub use total::{frees, hard_changes, status};

use std::fmt;

use jiff::Timestamp;

use super::plugins::Peers;

/// What is known besides the object in question.
pub struct QuotaSurroundings<'a> {
    /// What else is in the namespace.
    pub peers: &'a Peers<'a>,
    /// Pods that should long be gone count no more.
    pub now: Timestamp,
}

impl fmt::Debug for QuotaSurroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaSurroundings")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
