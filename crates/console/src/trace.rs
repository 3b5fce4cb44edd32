//! One object: what belongs to it, which stages it went through, and who did what to it when. Pure: everything that
//! was read is given, and so is the time. Shows names, conditions, times and counts; never what an object contains.

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

/// What is known of an object, from wherever it could be read.
#[derive(Clone, Debug, Default)]
pub struct TraceInputs {
    /// The object as the API server has it.
    pub object: Value,
    /// What belongs to it.
    pub relatives: Vec<Relative>,
    /// The operator's journal of it, as `/debug/journal` prints it.
    pub journal: Vec<Value>,
    /// The Events about it.
    pub events: Vec<Value>,
    /// What could not be read, and why.
    pub gaps: Vec<String>,
}

/// The story of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTrace {
    /// When this was told.
    pub at: Timestamp,
    /// The version of the object that it was told from.
    pub resource_version: String,
    /// The object and what belongs to it.
    pub tree: TraceNode,
    /// The stages it went through, each with the pushback met on the way.
    pub stages: Vec<TraceStage>,
    /// Everything that is known to have happened to it, oldest first.
    pub timeline: Vec<TraceMoment>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl ObjectTrace {
    /// The story that the evidence tells.
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

/// A text in an object; empty where there is none.
fn str_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// A time in an object.
fn time_at(value: &Value, pointer: &str) -> Option<Timestamp> {
    str_at(value, pointer).parse().ok()
}
