//! Which pods go first when there are too many: those that would be missed least.
//!
//! The order is that of Kubernetes' controllers, down to comparing ages by powers of two, so that
//! pods of about one age go in no order anybody could rely on.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use aplomb_apimachinery::object;
use jiff::Timestamp;
use serde_json::Value;

use super::super::pods;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods to delete. `related` are those of all replica sets of the same deployment:
/// a node that holds many of them gives one up first.
pub(super) fn to_delete(
    mut pods: Vec<Arc<Value>>,
    related: &[Arc<Value>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Value>> {
    if count < pods.len() {
        let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in related.iter().filter(|pod| pods::is_active(pod)) {
            *on_node.entry(node(pod)).or_default() += 1;
        }
        let rank = |pod: &Value| on_node.get(node(pod)).copied().unwrap_or(0);
        pods.sort_by(|a, b| compare(a, b, &rank, now));
    }
    pods.truncate(count);
    pods
}

fn compare(a: &Value, b: &Value, rank: &dyn Fn(&Value) -> usize, now: Timestamp) -> Ordering {
    let assigned = |pod: &Value| !node(pod).is_empty();
    let restarts = |pod: &Value| pods::restarts(pod);
    assigned(a)
        .cmp(&assigned(b))
        .then(ordinal(a).cmp(&ordinal(b)))
        .then(pods::is_ready(a).cmp(&pods::is_ready(b)))
        .then(cost(a).cmp(&cost(b)))
        .then(rank(b).cmp(&rank(a)))
        .then_with(|| {
            let ready = pods::is_ready(a) && pods::is_ready(b);
            let times = (pods::ready_since(a), pods::ready_since(b));
            if ready {
                by_age(times, a, b, now)
            } else {
                Ordering::Equal
            }
        })
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| by_age((created(a), created(b)), a, b, now))
}

/// The younger first; of about one age, the smaller UID.
fn by_age(times: (Option<Timestamp>, Option<Timestamp>), a: &Value, b: &Value, now: Timestamp) -> Ordering {
    match times {
        (a, b) if a == b => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(first), Some(second)) => {
            let age = |time| magnitude(time, now);
            let older = age(first).cmp(&age(second));
            older.then_with(|| object::uid(a).cmp(object::uid(b)))
        }
    }
}

/// The power of two of the nanoseconds since then; -1 for the future.
fn magnitude(time: Timestamp, now: Timestamp) -> i32 {
    let age = now.duration_since(time).as_nanos();
    match u128::try_from(age) {
        Ok(age) if age > 0 => i32::try_from(age.ilog2()).unwrap_or(i32::MAX),
        _ => -1,
    }
}

fn node(pod: &Value) -> &str {
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
    node.unwrap_or_default()
}

fn created(pod: &Value) -> Option<Timestamp> {
    object::meta_str(pod, "creationTimestamp").parse().ok()
}

fn ordinal(pod: &Value) -> u8 {
    match pods::phase(pod) {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

fn cost(pod: &Value) -> i32 {
    let annotations = pod.pointer("/metadata/annotations");
    let cost = annotations.and_then(|it| it.get(DELETION_COST)?.as_str());
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn first(pods: &[Value]) -> String {
        let pods: Vec<Arc<Value>> = pods.iter().cloned().map(Arc::new).collect();
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let chosen = to_delete(pods.clone(), &pods, 1, now);
        object::name(&chosen[0]).to_owned()
    }

    fn pod(name: &str, created: &str) -> Value {
        json!({
            "metadata": { "name": name, "uid": name, "creationTimestamp": created },
            "spec": { "nodeName": "node" },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            ] },
        })
    }

    #[test]
    fn the_one_that_would_be_missed_least_goes_first() {
        let long_ago = "2025-01-01T00:00:00Z";
        let served = pod("a-served", long_ago);
        let mut waiting = pod("unassigned", long_ago);
        waiting["spec"] = json!({});
        assert_eq!(first(&[served.clone(), waiting]), "unassigned");
        let mut pending = pod("pending", long_ago);
        pending["status"]["phase"] = "Pending".into();
        assert_eq!(first(&[served.clone(), pending]), "pending");
        let mut unready = pod("unready", long_ago);
        unready["status"]["conditions"] = json!([]);
        assert_eq!(first(&[served.clone(), unready]), "unready");
        let mut cheap = pod("cheap", long_ago);
        cheap["metadata"]["annotations"] = json!({ DELETION_COST: "-1" });
        assert_eq!(first(&[served.clone(), cheap]), "cheap");
        let young = pod("young", "2026-01-01T11:59:59Z");
        assert_eq!(first(&[served, young]), "young");
    }

    #[test]
    fn about_one_age_is_one_age() {
        let pods = [pod("b", "2026-01-01T00:00:01Z"), pod("a", "2026-01-01T00:00:00Z")];
        assert_eq!(first(&pods), "a");
    }
}
