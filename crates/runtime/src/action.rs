//! What a reconcile says when nothing failed.

use std::time::Duration;

/// The outcome of a pass that ended without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The world matches the spec; only a change runs this object again.
    Done,
    /// As far as it can be now; look again after this time even if nothing changes.
    RequeueAfter(Duration),
    /// Waits for something that is not there yet. A change of any watched input runs it again.
    Blocked {
        /// A CamelCase reason, as conditions have it.
        reason: String,
        /// What is missing, for a person.
        message: String,
    },
    /// The spec cannot be carried out; nothing but a new spec will help.
    Reject {
        /// A CamelCase reason, as conditions have it.
        reason: String,
        /// Which field is wrong and what would be right.
        message: String,
    },
}

impl Action {
    /// The word that logs, metrics and the journal use.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "Settled",
            Self::RequeueAfter(_) => "Recheck",
            Self::Blocked { .. } => "Blocked",
            Self::Reject { .. } => "Rejected",
        }
    }

    /// Waits for `message`.
    #[must_use]
    pub fn blocked(reason: &str, message: impl Into<String>) -> Self {
        Self::Blocked {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// Refuses the spec because of `message`.
    #[must_use]
    pub fn reject(reason: &str, message: impl Into<String>) -> Self {
        Self::Reject {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}
