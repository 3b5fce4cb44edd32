//! Conditions: what an object says of itself, and when that last turned.
//!
//! Pure. The reconcile says what it has proven; the runtime adds `Reconciling` and `Stalled` from
//! how the pass ended. Nothing here may differ between two passes that found the same world: a
//! time or a counter in a status makes every pass write, and every write a pass.

mod resolve;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::resolve::{PassOutcome, resolve_conditions};

/// The object does what its spec asks for, as last proven.
pub const READY: &str = "Ready";
/// Work is under way that needs nobody's help. Only ever present while true.
pub const RECONCILING: &str = "Reconciling";
/// Nothing will happen until somebody changes something. Only ever present while true.
pub const STALLED: &str = "Stalled";

/// The longest message a condition may have by the API's own rule.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be told, for instance because what it rests on is stale.
    Unknown,
}

impl ConditionStatus {
    /// Reads the word the API uses.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "True" => Some(Self::True),
            "False" => Some(Self::False),
            "Unknown" => Some(Self::Unknown),
            _ => None,
        }
    }

    /// The word the API uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition as a reconcile asserts it; since when it holds is worked out when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type, such as `LaneReadiness`.
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// A CamelCase word for programs.
    pub reason: String,
    /// A sentence for people. The same world must give the same sentence.
    pub message: String,
}

impl Condition {
    /// A condition of any type and status.
    #[must_use]
    pub fn new(
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
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

    /// It cannot be told whether `kind` holds.
    #[must_use]
    pub fn new_unknown(kind: &str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(kind, ConditionStatus::Unknown, reason, message)
    }

    /// `LaneReadiness` cannot be told because `what` it rests on is stale. For a reconcile that meets a
    /// cache it can no longer vouch for, as [`Cache::freshness`](crate::Cache::freshness) tells:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use aplomb::{Condition, Context, Kind, Result, Verdict};
    /// use k8s_openapi::api::core::v1::Node;
    ///
    /// fn judge<K: Kind>(cx: &Context<K>) -> Result<Verdict> {
    ///     if !cx.cache::<Node>()?.freshness().is_fresh() {
    ///         cx.condition(Condition::stale("the Nodes"));
    ///         return Ok(Verdict::Recheck(Duration::from_secs(10)));
    ///     }
    ///     Ok(Verdict::Settled)
    /// }
    /// ```
    #[must_use]
    pub fn stale(what: &str) -> Self {
        let message = format!("{what} has not been heard of for too long to say");
        Self::new_unknown(READY, "Stale", message)
    }
}

/// What is to become of the conditions of an object in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionChanges {
    /// These hold now.
    pub set: Vec<Condition>,
    /// Conditions of these types go.
    pub removed: Vec<String>,
}

impl ConditionChanges {
    /// Asserts a condition in place of any of the same type.
    pub fn set(&mut self, condition: Condition) {
        self.removed.retain(|kind| *kind != condition.type_);
        self.set.retain(|other| other.type_ != condition.type_);
        self.set.push(condition);
    }

    /// Takes a condition away.
    pub fn remove(&mut self, kind: &str) {
        self.set.retain(|other| other.type_ != kind);
        if !self.removed.iter().any(|other| other == kind) {
            self.removed.push(kind.to_owned());
        }
    }

    /// What is asserted of `kind`.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.set.iter().find(|condition| condition.type_ == kind)
    }
}

/// Lays `wishes` over the conditions an object has, as JSON of its status. What is not wished
/// about stays as it is; the transition time moves only where the status does.
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

/// Kubernetes keeps times of whole seconds; a fraction would differ from what is read back.
fn whole_seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second())
        .unwrap_or(now)
        .to_string()
}

/// A reason the API takes: an empty or odd one would have the whole status refused.
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
