//! One object: its relatives, its stages, and who wrote it when. Pure: everything read, and the time, are
//! arguments. Shows names, conditions, times and counts; never the contents of an object.

mod moments;
mod note;
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

/// The trace of an object.
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
    /// The trace that these inputs give.
    #[must_use]
    pub fn from_inputs(evidence: &TraceInputs, at: Timestamp) -> Self {
        let notes = note::parse_notes(&evidence.journal);
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
