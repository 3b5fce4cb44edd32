//! What all objects of a namespace use of a quota, and which changes make it worth counting again.

use aplomb_apimachinery::status::GroupResource;
use serde_json::{Value, json};

use super::super::quantity::Quantity;
use super::super::value::at;
use super::amounts::{Amounts, add, only, read, written};
use super::{Evaluator, QuotaSurroundings, pods, scopes, services};

/// The status of a quota when it is not what is stored: what may be used, and what is, of the
/// `resources` there are.
pub fn status(quota: &Value, resources: &[GroupResource], around: &QuotaSurroundings<'_>) -> Option<Value> {
    let hard = read(quota, &["spec", "hard"]);
    let stored = read(quota, &["status", "used"]);
    let mut used = stored.clone();
    used.extend(counted(quota, &hard, resources, around));
    let used = only(&used, |name| hard.contains_key(name));
    let known = read(quota, &["status", "hard"]) == hard && stored == used;
    if known {
        return None;
    }
    let mut status = json!({});
    if !hard.is_empty() {
        status["hard"] = at(quota, &["spec", "hard"]).clone();
    }
    if !used.is_empty() {
        status["used"] = written(&used);
    }
    Some(status)
}

/// What is used of everything that can be counted.
fn counted(quota: &Value, hard: &Amounts, resources: &[GroupResource], around: &QuotaSurroundings<'_>) -> Amounts {
    let mut total = Amounts::new();
    for resource in resources {
        let Some(evaluator) = Evaluator::of(resource) else {
            continue;
        };
        let names = evaluator.matching(hard, around);
        if names.is_empty() {
            continue;
        }
        let none = names.keys().map(|name| (name.clone(), Quantity::zero()));
        let mut sum: Amounts = none.collect();
        for object in (around.peers)(&resource.group, &resource.resource) {
            if evaluator.is_covered(quota, &object) {
                add(&mut sum, &evaluator.usage(&object, around));
            }
        }
        add(&mut total, &sum);
    }
    only(&total, |name| hard.contains_key(name))
}

/// Whether another amount may be used after a change of a quota.
pub fn hard_changes(old: &Value, new: &Value) -> bool {
    read(old, &["spec", "hard"]) != read(new, &["spec", "hard"])
}

/// Whether a quota may have more room after a change of an object, or its removal.
pub fn frees(
    resource: &GroupResource,
    old: &Value,
    new: Option<&Value>,
    quota: &Value,
    around: &QuotaSurroundings<'_>,
) -> bool {
    let Some(evaluator) = Evaluator::of(resource) else {
        return false;
    };
    let lets_go = match (&evaluator, new) {
        (_, None) | (Evaluator::VolumeClaims, _) => true,
        (Evaluator::Pods, Some(new)) => {
            let ends = pods::is_counted(old, around.now) && !pods::is_counted(new, around.now);
            let moves = scopes::has_deadline(old) != scopes::has_deadline(new);
            ends || moves || pods::is_resized(old, new)
        }
        (Evaluator::Services, Some(new)) => services::turns(old, new),
        _ => false,
    };
    let hard = read(quota, &["status", "hard"]);
    lets_go && !evaluator.matching(&hard, around).is_empty()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;

    fn pod(phase: &str) -> Value {
        let resources = json!({ "requests": { "cpu": "500m" } });
        json!({ "spec": { "containers": [{ "name": "a", "resources": resources }] },
            "status": { "phase": phase } })
    }

    fn there(_: &str, plural: &str) -> Vec<Arc<Value>> {
        match plural {
            "pods" => ["Running", "Pending", "Failed"].map(pod).map(Arc::new).to_vec(),
            "secrets" => vec![Arc::new(json!({}))],
            _ => Vec::new(),
        }
    }

    fn told(quota: &Value) -> Option<Value> {
        let around = QuotaSurroundings {
            peers: &there,
            now: Timestamp::UNIX_EPOCH,
        };
        let resources = ["pods", "secrets", "services"].map(|it| GroupResource::new("", it));
        status(quota, &resources, &around)
    }

    #[test]
    fn everything_that_can_be_counted_is() {
        let hard = json!({ "cpu": "2000m", "count/pods": "9", "pods": "9", "secrets": "1",
            "services": "1", "count/none.example.com": "1" });
        let used = json!({ "count/pods": "3", "cpu": "1", "pods": "2", "secrets": "1", "services": "0" });
        let quota = json!({ "spec": { "hard": hard } });
        let status = json!({ "hard": hard, "used": used });
        assert_eq!(told(&quota), Some(status.clone()));
        let quota = json!({ "spec": { "hard": hard }, "status": status });
        assert_eq!(told(&quota), None);
    }

    #[test]
    fn what_is_no_longer_limited_is_no_longer_told() {
        let quota = json!({ "spec": { "hard": { "pods": "1" } },
            "status": { "hard": { "pods": "1", "cpu": "1" }, "used": { "pods": "2", "cpu": "1" } } });
        let status = json!({ "hard": { "pods": "1" }, "used": { "pods": "2" } });
        assert_eq!(told(&quota), Some(status));
    }

    #[test]
    fn objects_without_scopes_are_in_none() {
        let quota = json!({ "spec": { "hard": { "pods": "5", "secrets": "5" },
            "scopes": ["NotTerminating"] } });
        let used = told(&quota).map(|status| status["used"].clone());
        assert_eq!(used, Some(json!({ "pods": "2", "secrets": "0" })));
    }

    #[test]
    fn ends_free_and_beginnings_do_not() {
        let around = QuotaSurroundings {
            peers: &there,
            now: Timestamp::UNIX_EPOCH,
        };
        let quota = json!({ "status": { "hard": { "pods": "1" } } });
        let pods = GroupResource::new("", "pods");
        let free = |old: &Value, new: Option<&Value>| frees(&pods, old, new, &quota, &around);
        assert!(free(&pod("Running"), Some(&pod("Succeeded"))));
        assert!(!free(&pod("Pending"), Some(&pod("Running"))));
        assert!(free(&pod("Running"), None));
        let maps = GroupResource::new("", "configmaps");
        assert!(!frees(&maps, &json!({}), None, &quota, &around));
    }
}
