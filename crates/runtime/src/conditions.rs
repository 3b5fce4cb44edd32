//! Conditions: the observed state of an object, and when it last changed.
//!
//! Pure. The reconcile sets the conditions it has verified; the runtime adds `Reconciling` and `Stalled`
//! depending on how the pass ended. The result must be the same for two passes that found the same state: a
//! time or a counter in a status makes every pass write, and every write starts a pass.

mod resolve;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::resolve::{PassOutcome, resolve_conditions};

/// The object does what its spec requests, as last verified.
pub const READY: &str = "Ready";
/// Work is in progress and needs no action by a user. Only present while true.
pub const RECONCILING: &str = "Reconciling";
/// The reconcile is blocked until a user changes something. Only present while true.
pub const STALLED: &str = "Stalled";

/// The API's limit for the length of a condition message.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is unknown, for instance because its inputs are stale.
    Unknown,
}

impl ConditionStatus {
    /// Parses the value that the API uses.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "True" => Some(Self::True),
            "False" => Some(Self::False),
            "Unknown" => Some(Self::Unknown),
            _ => None,
        }
    }

    /// The value that the API uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition as a reconcile sets it. The transition time is determined when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type, such as `Ready`.
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// A CamelCase word for programs.
    pub reason: String,
    /// A sentence for people. The same state must give the same sentence.
    pub message: String,
}

impl Condition {
    /// A condition of any type and status.
    #[must_use]
    pub fn new(kind: &str, status: ConditionStatus, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: kind.to_owned(),
            status,
            reason: sanitize_reason(reason),
            message: truncate_message(message.into()),
        }
    }

    /// `kind` holds.
    #[must_use]
    pub fn new_true(kind: &str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::True, reason, message)
    }

    /// `kind` does not hold.
    #[must_use]
    pub fn new_false(kind: &str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::False, reason, message)
    }

    /// It is unknown whether `kind` holds.
    #[must_use]
    pub fn new_unknown(kind: &str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::Unknown, reason, message)
    }
}

/// Changes of an object's conditions in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionChanges {
    /// Conditions to set.
    pub set: Vec<Condition>,
    /// Types of conditions to remove.
    pub removed: Vec<String>,
}

impl ConditionChanges {
    /// Sets a condition and replaces any of the same type.
    pub fn set(&mut self, condition: Condition) {
        self.removed.retain(|kind| *kind != condition.type_);
        self.set.retain(|other| other.type_ != condition.type_);
        self.set.push(condition);
    }

    /// Removes a condition.
    pub fn remove(&mut self, kind: &str) {
        self.set.retain(|other| other.type_ != kind);
        if !self.removed.iter().any(|other| other == kind) {
            self.removed.push(kind.to_owned());
        }
    }

    /// The condition to set of type `kind`.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.set.iter().find(|condition| condition.type_ == kind)
    }
}

/// Applies `wishes` to the existing conditions, given as JSON of the status. Other conditions
/// stay as they are; the transition time changes only if the status does.
#[must_use]
pub fn merge_conditions(
    existing: &[Value],
    wishes: &ConditionChanges,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Value> {
    let kind = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
    let kept = existing
        .iter()
        .filter(|condition| !wishes.removed.contains(&kind(condition)));
    let mut merged: Vec<Value> = kept
        .map(|old| match wishes.get(&kind(old)) {
            Some(new) => condition_json(new, Some(old), generation, now),
            None => old.clone(),
        })
        .collect();
    let fresh = |wish: &&Condition| existing.iter().all(|old| kind(old) != wish.type_);
    merged.extend(
        wishes
            .set
            .iter()
            .filter(fresh)
            .map(|new| condition_json(new, None, generation, now)),
    );
    merged
}

fn condition_json(new: &Condition, old: Option<&Value>, generation: Option<i64>, now: Timestamp) -> Value {
    let same = old.filter(|old| old["status"] == new.status.as_str());
    let since = same
        .and_then(|old| old["lastTransitionTime"].as_str())
        .map_or_else(|| whole_seconds(now), str::to_owned);
    let mut condition = json!({
        "type": new.type_,
        "status": new.status.as_str(),
        "reason": new.reason,
        "message": new.message,
        "lastTransitionTime": since,
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    condition
}

/// Kubernetes stores times in whole seconds; a fraction would differ from what is read back.
fn whole_seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// A valid reason: with an empty or malformed one the API would reject the whole status.
fn sanitize_reason(reason: &str) -> String {
    let mut word: String = reason
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        word.insert_str(0, "Reason");
    }
    word.truncate(1024);
    word
}

fn truncate_message(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end = message.floor_char_boundary(MAX_MESSAGE_BYTES);
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests;
