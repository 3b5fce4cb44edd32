//! What controllers see in a pod: whether it counts, whether it is ready, since when.
//!
//! Pure functions of a stored pod.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use aplomb_apimachinery::object;

/// The phase of a pod.
pub(super) fn phase(pod: &Value) -> &str {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    phase.unwrap_or_default()
}

fn is_terminal(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether it counts as a replica.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_terminal(pod) && !object::is_terminating(pod)
}

/// Whether it has been told to go and still runs.
pub(super) fn is_leaving(pod: &Value) -> bool {
    !is_terminal(pod) && object::is_terminating(pod)
}

fn ready_condition(pod: &Value) -> Option<&Value> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let ready = conditions.iter().find(|it| it["type"] == "Ready")?;
    (ready["status"] == "True").then_some(ready)
}

/// Whether it serves.
pub(super) fn is_ready(pod: &Value) -> bool {
    ready_condition(pod).is_some()
}

/// Since when it serves, if that is known.
pub(super) fn ready_since(pod: &Value) -> Option<Timestamp> {
    let since = object::text(ready_condition(pod)?, "lastTransitionTime");
    since.parse().ok()
}

/// How long until it has been ready for `seconds`: nothing when it has, `None` when it is not
/// ready or it is not known since when.
pub(super) fn available_in(pod: &Value, seconds: i64, now: Timestamp) -> Option<Duration> {
    if !is_ready(pod) {
        return None;
    }
    if seconds <= 0 {
        return Some(Duration::ZERO);
    }
    let since = now.duration_since(ready_since(pod)?);
    let left = jiff::SignedDuration::from_secs(seconds).checked_sub(since)?;
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

/// Whether it has been ready for `seconds`.
pub(super) fn is_available(pod: &Value, seconds: i64, now: Timestamp) -> bool {
    available_in(pod, seconds, now) == Some(Duration::ZERO)
}

/// The highest restart counts of its containers and of its sidecars.
pub(super) fn restarts(pod: &Value) -> (i64, i64) {
    let highest = |list: &str, counts: &dyn Fn(&Value) -> bool| {
        let statuses = pod.pointer(list).and_then(Value::as_array);
        let statuses = statuses.into_iter().flatten().filter(|it| counts(it));
        let restarts = statuses.map(|it| it["restartCount"].as_i64().unwrap_or(0));
        restarts.max().unwrap_or(0)
    };
    let sidecar = |status: &Value| {
        let containers = pod.pointer("/spec/initContainers").and_then(Value::as_array);
        let mut containers = containers.into_iter().flatten();
        containers.any(|it| it["name"] == status["name"] && it["restartPolicy"] == "Always")
    };
    let containers = highest("/status/containerStatuses", &|_| true);
    let sidecars = highest("/status/initContainerStatuses", &sidecar);
    (containers, sidecars)
}
