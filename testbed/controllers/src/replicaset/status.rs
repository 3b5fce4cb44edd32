//! The status of a replica set, from its pods.
//!
//! A pure function; what it was before matters only for the condition that says why pods are
//! missing.

use aplomb_apimachinery::labels::LabelSelector;
use aplomb_apimachinery::object;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::pods;

const FAILURE: &str = "ReplicaFailure";

/// What a status is made from.
pub(super) struct Observation<'a> {
    /// Pods that count, before anything was created or deleted.
    pub(super) active: &'a [std::sync::Arc<Value>],
    /// How many have been told to go and still run.
    pub(super) leaving: usize,
    /// Why pods could not be created or deleted.
    pub(super) failure: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// The status as it should be; `None` when it is.
pub(super) fn of(set: &Value, seen: &Observation<'_>) -> Option<Value> {
    let old = set.get("status").unwrap_or(&Value::Null);
    let min_ready = number(set, "/spec/minReadySeconds");
    let labels = template_labels(set);
    let count = |holds: &dyn Fn(&Value) -> bool| seen.active.iter().filter(|it| holds(it)).count();
    let counts = [
        ("fullyLabeledReplicas", count(&|pod| labels.matches(pod))),
        ("readyReplicas", count(&|pod| pods::is_ready(pod))),
        (
            "availableReplicas",
            count(&|pod| pods::is_available(pod, min_ready, seen.now)),
        ),
    ];
    let mut status = Map::new();
    status.insert("replicas".into(), seen.active.len().into());
    for (name, count) in counts {
        if count > 0 {
            status.insert(name.into(), count.into());
        }
    }
    status.insert("terminatingReplicas".into(), seen.leaving.into());
    let conditions = conditions(set, old, seen);
    if !conditions.is_empty() {
        status.insert("conditions".into(), conditions.into());
    }
    let generation = object::generation(set);
    if generation != 0 {
        status.insert("observedGeneration".into(), generation.into());
    }
    let status = Value::Object(status);
    (*old != status).then_some(status)
}

fn template_labels(set: &Value) -> LabelSelector {
    let template = json!({ "spec": { "selector": {
        "matchLabels": set.pointer("/spec/template/metadata/labels"),
    } } });
    super::super::owners::selector(&template).unwrap_or_default()
}

fn conditions(set: &Value, old: &Value, seen: &Observation<'_>) -> Vec<Value> {
    let conditions = old.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.cloned().unwrap_or_default();
    let failed = conditions.iter().any(|it| it["type"] == FAILURE);
    match seen.failure {
        None => conditions.retain(|it| it["type"] != FAILURE),
        Some(_) if failed => {}
        Some(why) => {
            let wanted = usize::try_from(number(set, "/spec/replicas")).unwrap_or(0);
            let reason = match seen.active.len().cmp(&wanted) {
                std::cmp::Ordering::Less => "FailedCreate",
                std::cmp::Ordering::Greater => "FailedDelete",
                std::cmp::Ordering::Equal => "",
            };
            conditions.push(json!({
                "type": FAILURE,
                "status": "True",
                "lastTransitionTime": seen.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "reason": reason,
                "message": why,
            }));
        }
    }
    conditions
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn set() -> Value {
        let template = json!({ "metadata": { "labels": { "app": "web", "v": "1" } } });
        json!({
            "metadata": { "generation": 2 },
            "spec": { "replicas": 2, "minReadySeconds": 10, "template": template },
        })
    }

    fn pod(labels: &Value, ready: &str) -> Arc<Value> {
        let condition = json!({ "type": "Ready", "status": "True", "lastTransitionTime": ready });
        Arc::new(json!({
            "metadata": { "labels": labels },
            "status": { "phase": "Running", "conditions": [condition] },
        }))
    }

    #[test]
    fn pods_are_counted_by_what_they_are() {
        let full = json!({ "app": "web", "v": "1" });
        let active = [
            pod(&full, "2026-01-01T00:00:00Z"),
            pod(&json!({ "app": "web" }), "2026-01-01T00:00:55Z"),
        ];
        let seen = Observation {
            active: &active,
            leaving: 1,
            failure: None,
            now: "2026-01-01T00:01:00Z".parse().unwrap(),
        };
        let status = of(&set(), &seen).unwrap();
        assert_eq!(
            status,
            json!({
                "replicas": 2, "fullyLabeledReplicas": 1, "readyReplicas": 2,
                "availableReplicas": 1, "terminatingReplicas": 1, "observedGeneration": 2,
            })
        );
        let mut settled = set();
        settled["status"] = status;
        assert_eq!(of(&settled, &seen), None);
    }

    #[test]
    fn a_failure_is_a_condition_until_it_is_over() {
        let mut seen = Observation {
            active: &[],
            leaving: 0,
            failure: Some("no room"),
            now: "2026-01-01T00:01:00Z".parse().unwrap(),
        };
        let mut set = set();
        set["status"] = of(&set, &seen).unwrap();
        assert_eq!(set["status"]["conditions"][0]["reason"], "FailedCreate");
        seen.failure = None;
        assert_eq!(of(&set, &seen).unwrap().get("conditions"), None);
    }
}
