//! One line of the journal, and its JSON.

use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::error::ErrorClass;
use crate::key::ObjectRef;
use crate::queue::{Lane, RunReason};
use crate::version::ResourceVersion;

/// Longer texts are cut: a server may quote a whole object in its message.
pub(super) const TEXT_LIMIT: usize = 1024;

/// One event in the history of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", content = "detail", rename_all = "camelCase")]
#[non_exhaustive]
pub enum JournalEntry {
    /// It was put in the queue.
    Triggered {
        /// The reason.
        #[serde(serialize_with = "as_text")]
        reason: RunReason,
        /// The lane.
        #[serde(serialize_with = "lane_word")]
        lane: Lane,
    },
    /// A run began.
    Started,
    /// A run ended; the word of its action.
    Ended(&'static str),
    /// A run or a call failed.
    Pushback {
        /// The class of the error.
        #[serde(serialize_with = "class_word")]
        class: ErrorClass,
        /// Its text.
        message: String,
    },
    /// A conflict ended: the winner is known.
    Conflict {
        /// The written object.
        #[serde(serialize_with = "as_text")]
        object: ObjectRef,
        /// The field manager that was first, if the object shows it.
        winner: Option<String>,
    },
    /// An object was written, or left alone because it was equal already.
    Wrote {
        /// `apply`, `status`, `delete` and so on.
        verb: &'static str,
        /// The written object.
        #[serde(serialize_with = "as_text")]
        object: ObjectRef,
        /// Its new version; `None` if nothing was written.
        #[serde(serialize_with = "version_text")]
        version: Option<ResourceVersion>,
    },
    /// An effect was carried out, but the lease had been lost when it returned.
    Stale {
        /// `apply`, `status`, `delete` and so on.
        verb: &'static str,
        /// The written object.
        #[serde(serialize_with = "as_text")]
        object: ObjectRef,
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
}

impl JournalEntry {
    pub(super) fn truncate(mut self) -> Self {
        if let Self::Pushback { message: text, .. } = &mut self
            && text.len() > TEXT_LIMIT
        {
            text.truncate(text.floor_char_boundary(TEXT_LIMIT));
            text.push_str("...");
        }
        self
    }
}

/// An entry with its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalLine {
    /// The wall time at which it happened, for people.
    pub at: Timestamp,
    /// The time since the journal began, on the monotonic clock: for computing differences.
    #[serde(rename = "offsetSeconds", serialize_with = "in_seconds")]
    pub offset: Duration,
    /// How often it happened: older equal lines are merged into one.
    #[serde(skip_serializing_if = "is_once")]
    pub times: u64,
    /// When it last happened, if more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What happened.
    #[serde(flatten)]
    pub entry: JournalEntry,
}

fn as_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn lane_word<S: Serializer>(lane: &Lane, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(lane.as_str())
}

fn class_word<S: Serializer>(class: &ErrorClass, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.as_str())
}

fn version_text<S: Serializer>(version: &Option<ResourceVersion>, serializer: S) -> Result<S::Ok, S::Error> {
    match version {
        Some(version) => serializer.collect_str(version),
        None => serializer.serialize_none(),
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_once(times: &u64) -> bool {
    *times == 1
}

fn in_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
