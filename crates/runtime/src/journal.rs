//! The history of each object, newest last: triggers, runs, outcomes, writes, errors.
//!
//! Bounded, in memory, for `trace` and the web page. Decisions must not depend on it, and it must not
//! contain secrets: it is shown to all users who may see the object.

mod object;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use tokio::time::Instant;

use self::object::ObjectJournal;
use crate::clock::Clock;
use crate::error::ErrorClass;
use crate::key::{ObjectRef, ResourceVersion};
use crate::queue::{Lane, RunReason};
use crate::support::LruMap;

/// The limits of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalCapacity {
    /// Lines per object. Older equal lines are merged first, then the oldest is dropped.
    pub lines: usize,
    /// Number of objects. The one without an entry for the longest time is dropped first.
    pub objects: usize,
}

impl Default for JournalCapacity {
    fn default() -> Self {
        Self {
            lines: 64,
            objects: 4096,
        }
    }
}

/// The journal of a process. Clones share it.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capacity: JournalCapacity,
    clock: Clock,
    started: Instant,
    objects: Mutex<LruMap<ObjectRef, ObjectJournal>>,
}

impl Journal {
    /// An empty journal.
    #[must_use]
    pub fn new(capacity: JournalCapacity, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            capacity,
            clock,
            started: Instant::now(),
            objects: Mutex::new(LruMap::new(capacity.objects)),
        }))
    }

    /// Records that `entry` happened to `object`, now.
    pub fn record(&self, object: &ObjectRef, entry: JournalEntry) {
        let line = JournalLine {
            at: self.0.clock.now(),
            offset: self.0.started.elapsed(),
            times: 1,
            until: None,
            entry: entry.truncate(),
        };
        self.with_objects(|pages| {
            let page = pages.get_or_insert(object, ObjectJournal::default);
            page.add(line, self.0.capacity.lines);
        });
    }

    /// The entries of `object`, oldest first.
    #[must_use]
    pub fn read(&self, object: &ObjectRef) -> Vec<JournalLine> {
        self.with_objects(|pages| {
            let page = pages.get(object);
            page.map(|page| page.lines().cloned().collect()).unwrap_or_default()
        })
    }

    /// The objects that have entries, in order of their names.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectRef> {
        self.with_objects(|pages| pages.keys().cloned().collect())
    }

    fn with_objects<T>(&self, act: impl FnOnce(&mut LruMap<ObjectRef, ObjectJournal>) -> T) -> T {
        act(&mut self.0.objects.lock())
    }
}

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::error::ErrorClass;
    use crate::key::{ObjectKey, ResourceVersion};

    fn object(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "ConfigMap".into(),
            key: ObjectKey::new(Some("default"), name),
        }
    }

    fn journal(lines: usize, objects: usize) -> Journal {
        Journal::new(JournalCapacity { lines, objects }, Clock::new(|| Timestamp::UNIX_EPOCH))
    }

    fn pushback(text: &str) -> JournalEntry {
        JournalEntry::Pushback {
            class: ErrorClass::Fault,
            message: text.to_owned(),
        }
    }

    #[test]
    fn the_oldest_line_of_an_object_goes_first() {
        let journal = journal(2, 2);
        for verdict in ["one", "two", "three"] {
            journal.record(&object("a"), JournalEntry::Ended(verdict));
        }
        let lines = journal.read(&object("a"));
        let entries: Vec<_> = lines.into_iter().map(|line| line.entry).collect();
        assert_eq!(entries, [JournalEntry::Ended("two"), JournalEntry::Ended("three")]);
    }

    #[test]
    fn least_recent_object_is_evicted_first() {
        let journal = journal(8, 2);
        for name in ["a", "b", "a", "c"] {
            journal.record(&object(name), JournalEntry::Started);
        }
        assert_eq!(journal.objects(), [object("a"), object("c")]);
        assert_eq!(journal.read(&object("b")), []);
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let journal = journal(1, 1);
        journal.record(&object("a"), pushback(&"ä".repeat(TEXT_LIMIT)));
        let JournalEntry::Pushback { message: text, .. } = &journal.read(&object("a"))[0].entry else {
            panic!("not a pushback");
        };
        assert!(text.len() <= TEXT_LIMIT + 3 && text.ends_with("ä..."));
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_json_with_both_times() {
        let journal = journal(8, 8);
        tokio::time::advance(Duration::from_millis(1500)).await;
        let wrote = JournalEntry::Wrote {
            verb: "apply",
            object: object("b"),
            version: Some(ResourceVersion::Number(7)),
        };
        journal.record(&object("a"), wrote);
        journal.record(&object("a"), JournalEntry::Ended("settled"));
        let lines = serde_json::to_value(journal.read(&object("a"))).expect("JSON");
        assert_eq!(
            lines[0],
            json!({
                "at": "1970-01-01T00:00:00Z", "offsetSeconds": 1.5, "what": "wrote",
                "detail": { "verb": "apply", "object": "ConfigMap default/b", "version": "7" },
            })
        );
        assert_eq!(lines[1]["detail"], "settled");
    }
}
