//! One object: its relatives, its stages, and who wrote it when. Pure: everything read, and the time, are
//! arguments. Shows names, conditions, times and counts; never the contents of an object.

mod moments;
mod relatives;
mod stages;
mod text;
mod tree;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::moments::{MomentSource, TraceMoment};
pub use self::relatives::{Relative, RelativeFilter, RelativeQuery, relative_queries};
pub use self::stages::{ConflictWinner, TraceStage};
pub use self::tree::{TraceCondition, TraceNode};

/// Everything that could be read about an object.
#[derive(Clone, Debug, Default)]
pub struct TraceInputs {
    /// The object, from the API server.
    pub object: Value,
    /// Objects that belong to it.
    pub relatives: Vec<Relative>,
    /// The operator's journal of it, from `/debug/journal`.
    pub journal: Vec<Value>,
    /// The Events about it.
    pub events: Vec<Value>,
    /// What could not be read, and why.
    pub gaps: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTrace {
    /// When this was made.
    pub at: Timestamp,
    /// The version of the object that was read.
    pub resource_version: String,
    /// The object and its relatives.
    pub tree: TraceNode,
    /// Its stages, each with the pushback met before it.
    pub stages: Vec<TraceStage>,
    /// Every known event in its life, oldest first.
    pub timeline: Vec<TraceMoment>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl ObjectTrace {
    #[must_use]
    pub fn from_inputs(evidence: &TraceInputs, at: Timestamp) -> Self {
        let notes = parse_notes(&evidence.journal);
        let object = &evidence.object;
        Self {
            at,
            resource_version: str_at(object, "/metadata/resourceVersion").to_owned(),
            tree: tree::build_tree(object, &evidence.relatives),
            stages: stages::collect_stages(object, &notes),
            timeline: moments::collect_moments(object, &notes, &evidence.events),
            gaps: evidence.gaps.clone(),
        }
    }
}

/// A string in an object; empty if it does not exist.
fn str_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// A time in an object.
fn time_at(value: &Value, pointer: &str) -> Option<Timestamp> {
    str_at(value, pointer).parse().ok()
}

/// A line of an operator's journal, read from its admin address. Unknown lines are skipped: the operator may be newer than
/// this program.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JournalNote {
    at: Timestamp,
    /// When it last happened, if it was repeated.
    #[serde(default)]
    until: Option<Timestamp>,
    #[serde(default = "once")]
    times: u64,
    #[serde(flatten)]
    what: NoteKind,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "what", content = "detail", rename_all = "camelCase")]
enum NoteKind {
    Triggered {
        reason: String,
        lane: String,
    },
    Started,
    Ended(String),
    Pushback {
        class: String,
        message: String,
    },
    Conflict {
        object: String,
        winner: Option<String>,
    },
    Wrote {
        verb: String,
        object: String,
        version: Option<String>,
    },
    Stale {
        verb: String,
        object: String,
    },
    Condition {
        condition: String,
        status: String,
        reason: String,
    },
}

impl JournalNote {
    /// Whether another writer was first. The journal has this twice: when it happens, and when the winner is known.
    fn is_conflict(&self) -> bool {
        matches!(&self.what, NoteKind::Pushback { class, .. } if class == "Conflict")
    }
}

fn once() -> u64 {
    1
}

/// The lines that can be parsed, sorted by time.
fn parse_notes(lines: &[Value]) -> Vec<JournalNote> {
    let understood = lines.iter().filter_map(|line| JournalNote::deserialize(line).ok());
    let mut notes: Vec<JournalNote> = understood.collect();
    notes.sort_by_key(|note| note.at);
    notes
}
