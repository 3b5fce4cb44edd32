//! The result of a reconcile that did not fail.

use std::time::Duration;

/// The outcome of a pass that ended without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The object matches its spec; only a change runs it again.
    Done,
    /// Done for now; run again after this time even if nothing changes.
    RequeueAfter(Duration),
    /// The spec cannot be carried out; only a new spec helps.
    Reject {
        /// A CamelCase reason for the condition.
        reason: String,
        /// Which field is wrong and what would be right.
        message: String,
    },
}

impl Action {
    /// The word in logs, metrics and the journal.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "Settled",
            Self::RequeueAfter(_) => "Recheck",
            Self::Reject { .. } => "Rejected",
        }
    }

    /// Rejects the spec with `message`.
    #[must_use]
    pub fn reject(reason: &str, message: impl Into<String>) -> Self {
        Self::Reject {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}
