//! The health color of an object: gray, amber with the stage it has reached, green when it is proven.
//!
//! Pure. Green is never inferred: it requires `Ready=True` for the current generation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The stages of `status.timeline` of a tunnel, in the order in which they are reached.
pub const STAGES: [&str; 5] = ["created", "accepted", "childrenWritten", "programmed", "proven"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "colour", rename_all = "camelCase")]
pub enum HealthColor {
    /// It does not work and is not about to: offline, stalled, being deleted, or not observed yet.
    #[default]
    Grey,
    Amber {
        /// The stage it has reached, or what it waits for.
        stage: String,
    },
    /// It is proven to work for its newest spec.
    Green,
}

impl HealthColor {
    /// The color of an object of ours, read as JSON.
    #[must_use]
    pub fn from_object(object: &Value) -> Self {
        let seen = ObjectConditions::new(object);
        if seen.deleting || !seen.observed || seen.is_true("Stalled") {
            return Self::Grey;
        }
        if seen.is_true("Ready") {
            return Self::Green;
        }
        if seen.has_status("ConnectorOnline", "False") {
            return Self::Grey;
        }
        match seen.stage() {
            Some(stage) => Self::Amber { stage },
            None => Self::Grey,
        }
    }

    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Grey => "grey",
            Self::Amber { .. } => "amber",
            Self::Green => "green",
        }
    }

    /// The stage it has reached, if it is progressing.
    #[must_use]
    pub fn stage(&self) -> Option<&str> {
        match self {
            Self::Amber { stage } => Some(stage),
            Self::Grey | Self::Green => None,
        }
    }
}

/// The parts of an object that decide its color.
struct ObjectConditions<'a> {
    status: &'a Value,
    generation: &'a Value,
    deleting: bool,
    /// Whether the status is about the spec as it is now.
    observed: bool,
}

impl<'a> ObjectConditions<'a> {
    fn new(object: &'a Value) -> Self {
        let (meta, status) = (&object["metadata"], &object["status"]);
        let generation = &meta["generation"];
        Self {
            status,
            generation,
            deleting: !meta["deletionTimestamp"].is_null(),
            observed: !generation.is_null() && status["observedGeneration"] == *generation,
        }
    }

    /// The condition of this type, if it is about the spec as it is now.
    fn condition(&self, kind: &str) -> Option<&'a Value> {
        let conditions = self.status["conditions"].as_array()?;
        conditions
            .iter()
            .find(|it| it["type"] == kind && it["observedGeneration"] == *self.generation)
    }

    fn has_status(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|it| it["status"] == status)
    }

    fn is_true(&self, kind: &str) -> bool {
        self.has_status(kind, "True")
    }

    fn reason(&self, kind: &str) -> Option<String> {
        let reason = self.condition(kind)?["reason"].as_str()?;
        Some(reason.to_owned())
    }

    /// The stage it has reached, if it is progressing.
    fn stage(&self) -> Option<String> {
        if !self.status["move"].is_null() {
            return Some("moving".to_owned());
        }
        let timeline = &self.status["timeline"];
        let reached = match timeline["generation"] == *self.generation {
            true => STAGES.iter().rev().find(|it| !timeline[**it].is_null()),
            false => None,
        };
        match reached {
            // A tunnel that was proven and no longer is: the reason explains more than the stage it once reached.
            Some(&"proven") => self.reason("Ready"),
            Some(stage) => Some((*stage).to_owned()),
            None if self.is_true("Reconciling") => self.reason("Ready").or_else(|| self.reason("Reconciling")),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(kind: &str, status: &str, reason: &str, generation: i64) -> Value {
        json!({ "type": kind, "status": status, "reason": reason, "observedGeneration": generation })
    }

    /// A tunnel of generation 2 with these conditions, looked at.
    fn tunnel(conditions: &[Value]) -> Value {
        json!({
            "metadata": { "generation": 2 },
            "status": { "observedGeneration": 2, "conditions": conditions },
        })
    }

    fn amber(stage: &str) -> HealthColor {
        let stage = stage.to_owned();
        HealthColor::Amber { stage }
    }

    #[test]
    fn green_is_ready_at_the_newest_generation() {
        let proven = tunnel(&[condition("Ready", "True", "Proven", 2)]);
        assert_eq!(HealthColor::from_object(&proven), HealthColor::Green);
        let mut newer = proven.clone();
        newer["metadata"]["generation"] = 3.into();
        assert_eq!(HealthColor::from_object(&newer), HealthColor::Grey);
        let old = tunnel(&[condition("Ready", "True", "Proven", 1)]);
        assert_eq!(HealthColor::from_object(&old), HealthColor::Grey);
    }

    #[test]
    fn a_condition_without_a_generation_proves_nothing() {
        let mut bare = tunnel(&[json!({ "type": "Ready", "status": "True" })]);
        assert_eq!(HealthColor::from_object(&bare), HealthColor::Grey);
        bare["metadata"] = json!({});
        bare["status"]["observedGeneration"] = Value::Null;
        assert_eq!(HealthColor::from_object(&bare), HealthColor::Grey);
    }

    #[test]
    fn a_deleted_object_is_gray_even_if_ready() {
        let mut going = tunnel(&[condition("Ready", "True", "Proven", 2)]);
        going["metadata"]["deletionTimestamp"] = "2026-11-15T10:00:00Z".into();
        assert_eq!(HealthColor::from_object(&going), HealthColor::Grey);
    }

    #[test]
    fn an_unready_tunnel_names_the_last_stage_of_its_newest_spec() {
        let mut on_its_way = tunnel(&[
            condition("Ready", "False", "Pending", 2),
            condition("Reconciling", "True", "Pending", 2),
        ]);
        on_its_way["status"]["timeline"] = json!({
            "generation": 2, "created": "a", "accepted": "b", "childrenWritten": "c",
        });
        assert_eq!(HealthColor::from_object(&on_its_way), amber("childrenWritten"));
        on_its_way["status"]["timeline"]["generation"] = 1.into();
        assert_eq!(HealthColor::from_object(&on_its_way), amber("Pending"));
    }

    #[test]
    fn a_lost_proof_has_its_reason() {
        let mut lost = tunnel(&[condition("Ready", "False", "OriginUnreachable", 2)]);
        lost["status"]["timeline"] = json!({ "generation": 2, "created": "a", "proven": "b" });
        assert_eq!(HealthColor::from_object(&lost), amber("OriginUnreachable"));
    }

    #[test]
    fn offline_stalled_and_unseen_are_grey() {
        let mut offline = tunnel(&[
            condition("Ready", "False", "ConnectorOffline", 2),
            condition("ConnectorOnline", "False", "LeaseExpired", 2),
        ]);
        offline["status"]["timeline"] = json!({ "generation": 2, "created": "a" });
        assert_eq!(HealthColor::from_object(&offline), HealthColor::Grey);
        let stalled = tunnel(&[
            condition("Reconciling", "True", "Pending", 2),
            condition("Stalled", "True", "Invalid", 2),
        ]);
        assert_eq!(HealthColor::from_object(&stalled), HealthColor::Grey);
        assert_eq!(
            HealthColor::from_object(&json!({ "metadata": { "generation": 1 } })),
            HealthColor::Grey
        );
        assert_eq!(HealthColor::from_object(&Value::Null), HealthColor::Grey);
    }

    #[test]
    fn a_move_under_way_is_amber() {
        let mut moving = tunnel(&[condition("Ready", "False", "Moving", 2)]);
        moving["status"]["move"] = json!({ "to": "b" });
        assert_eq!(HealthColor::from_object(&moving), amber("moving"));
    }
}
