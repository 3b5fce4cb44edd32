//! What happened to each object, newest last: triggers, runs, verdicts, writes, pushback.
//!
//! A bounded memory of this process, for `trace` and the web page. Never a source of decisions.

use crate::error::Class;
use crate::queue::{Lane, Reason};

/// One thing that happened to an object.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Entry {
    /// It was put in the queue.
    Triggered {
        /// Why.
        reason: Reason,
        /// In which lane.
        lane: Lane,
    },
    /// A run began.
    Started,
    /// A run ended without an error; the word of its verdict.
    Ended(&'static str),
    /// A run or a call met pushback.
    Pushback {
        /// Of which kind.
        class: Class,
        /// What it said.
        message: String,
    },
    /// Something was written, or left alone because it was so already.
    Wrote {
        /// `apply`, `status`, `delete` and so on.
        verb: &'static str,
        /// What it was written to.
        object: crate::ObjectId,
        /// The version it got; `None` when nothing had to be written.
        version: Option<crate::version::Version>,
    },
    /// A condition changed.
    Condition {
        /// Its type.
        condition: String,
        /// `True`, `False` or `Unknown`.
        status: &'static str,
        /// Its reason.
        reason: String,
    },
    /// A note of the reconcile itself.
    Note(String),
}
