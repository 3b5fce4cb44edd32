//! The status of a deployment, from its replica sets, and whether its rollout gets on.
//!
//! Pure: the old status and the replica sets in, the new status out, in Kubernetes' own words.

use std::time::Duration;

use aplomb_apimachinery::object;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::size::{Bounds, counted, replicas};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
/// What a deadline is set to when there is to be none.
const NEVER: i64 = i32::MAX as i64;

/// A condition of a deployment.
pub(super) fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    })
}

/// A condition that says how the rollout gets on.
pub(super) fn progressing(status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    condition(PROGRESSING, status, reason, message, now)
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = status.get("conditions")?.as_array()?;
    conditions.iter().find(|it| it["type"] == kind)
}

fn remove(status: &mut Value, kind: &str) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    conditions.retain(|it| it["type"] != kind);
    if conditions.is_empty()
        && let Some(status) = status.as_object_mut()
    {
        status.remove("conditions");
    }
}

/// Sets a condition, last; one of the same status and reason stays as it is.
pub(super) fn set(status: &mut Value, mut condition: Value) {
    let kind = object::text(&condition, "type").to_owned();
    if let Some(current) = find(status, &kind)
        && current["status"] == condition["status"]
    {
        if current["reason"] == condition["reason"] {
            return;
        }
        condition["lastTransitionTime"] = current["lastTransitionTime"].clone();
    }
    remove(status, &kind);
    let conditions = &mut status["conditions"];
    match conditions.as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => *conditions = json!([condition]),
    }
}

/// The condition that says how the rollout gets on.
pub(super) fn progress(deployment: &Value) -> Option<&Value> {
    find(deployment.get("status")?, PROGRESSING)
}

/// In seconds, if there is a deadline.
pub(super) fn deadline(deployment: &Value) -> Option<i64> {
    let deadline = deployment.pointer("/spec/progressDeadlineSeconds");
    deadline.and_then(Value::as_i64).filter(|it| *it != NEVER)
}

/// The condition to set because the deployment was paused or resumed.
pub(super) fn pause(deployment: &Value, now: Timestamp) -> Option<Value> {
    deadline(deployment)?;
    let reason = progress(deployment).map(|it| object::text(it, "reason"));
    if reason == Some(TIMED_OUT) {
        return None;
    }
    let paused = deployment.pointer("/spec/paused") == Some(&json!(true));
    match (paused, reason == Some(PAUSED)) {
        (true, false) => Some(progressing("Unknown", PAUSED, "Deployment is paused", now)),
        (false, true) => Some(progressing(
            "Unknown",
            "DeploymentResumed",
            "Deployment is resumed",
            now,
        )),
        _ => None,
    }
}

/// The counts, and whether enough is available.
pub(super) fn counts(deployment: &Value, sets: &[Value], new: Option<&Value>, now: Timestamp) -> Value {
    let sum = |member: &str| sets.iter().map(|set| counted(set, member)).sum::<i64>();
    let available = sum("availableReplicas");
    let asked: i64 = sets.iter().map(replicas).sum();
    let updated = new.map_or(0, |set| counted(set, "replicas"));
    let counts = [
        ("observedGeneration", object::generation(deployment)),
        ("replicas", sum("replicas")),
        ("updatedReplicas", updated),
        ("readyReplicas", sum("readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", (asked - available).max(0)),
    ];
    let mut status = Map::new();
    for (name, count) in counts.into_iter().filter(|(_, count)| *count != 0) {
        status.insert(name.into(), count.into());
    }
    if let Some(leaving) = leaving(sets) {
        status.insert("terminatingReplicas".into(), leaving.into());
    }
    let old = deployment.get("status").unwrap_or(&Value::Null);
    for member in ["conditions", "collisionCount"] {
        if let Some(value) = old.get(member) {
            status.insert(member.into(), value.clone());
        }
    }
    let mut status = Value::Object(status);
    let bounds = Bounds::of(deployment);
    let (word, reason, message) = if available >= bounds.desired - bounds.unavailable {
        let message = "Deployment has minimum availability.";
        ("True", "MinimumReplicasAvailable", message)
    } else {
        let message = "Deployment does not have minimum availability.";
        ("False", "MinimumReplicasUnavailable", message)
    };
    set(&mut status, condition(AVAILABLE, word, reason, message, now));
    status
}

/// Pods on their way out; unknown while a replica set that was looked at does not say.
fn leaving(sets: &[Value]) -> Option<i64> {
    let known = |set: &Value| {
        let status = set.get("status").unwrap_or(&Value::Null);
        match status.get("terminatingReplicas").and_then(Value::as_i64) {
            None if counted(set, "observedGeneration") == 0 => Some(0),
            count => count,
        }
    };
    sets.iter().map(known).sum()
}

/// Whether every pod is of the new template and available, and no other is left.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let count = |member: &str| status.get(member).and_then(Value::as_i64).unwrap_or(0);
    let desired = replicas(deployment);
    ["updatedReplicas", "replicas", "availableReplicas"]
        .into_iter()
        .all(|member| count(member) == desired)
        && count("observedGeneration") >= object::generation(deployment)
}

fn is_getting_on(deployment: &Value, status: &Value) -> bool {
    let new = |member: &str| status.get(member).and_then(Value::as_i64).unwrap_or(0);
    let old = |member: &str| counted(deployment, member);
    let outdated = |count: &dyn Fn(&str) -> i64| count("replicas") - count("updatedReplicas");
    new("updatedReplicas") > old("updatedReplicas")
        || outdated(&new) < outdated(&old)
        || new("readyReplicas") > old("readyReplicas")
        || new("availableReplicas") > old("availableReplicas")
}

fn has_timed_out(status: &Value, deadline: i64, now: Timestamp) -> bool {
    let Some(condition) = find(status, PROGRESSING) else {
        return false;
    };
    match object::text(condition, "reason") {
        DONE => false,
        TIMED_OUT => true,
        _ => left(condition, deadline, now).is_some_and(|left| left.is_negative()),
    }
}

fn left(condition: &Value, deadline: i64, now: Timestamp) -> Option<SignedDuration> {
    let since: Timestamp = object::text(condition, "lastUpdateTime").parse().ok()?;
    SignedDuration::from_secs(deadline).checked_sub(now.duration_since(since))
}

/// The status during a rollout: counts, progress, and what replica sets could not do.
pub(super) fn of_rollout(deployment: &Value, sets: &[Value], new: Option<&Value>, now: Timestamp) -> Value {
    let mut status = counts(deployment, sets, new, now);
    let current = progress(deployment);
    let count = |member: &str| status.get(member).and_then(Value::as_i64).unwrap_or(0);
    let settled = count("replicas") == count("updatedReplicas") && current.is_some_and(|it| it["reason"] == DONE);
    match deadline(deployment) {
        None => remove(&mut status, PROGRESSING),
        Some(deadline) if !settled => estimate(deployment, &mut status, new, deadline, now),
        Some(_) => {}
    }
    match failure(sets, new) {
        Some(failure) => set(&mut status, failure),
        None => remove(&mut status, FAILURE),
    }
    status
}

fn estimate(deployment: &Value, status: &mut Value, new: Option<&Value>, deadline: i64, now: Timestamp) {
    let (kind, name) = match new {
        Some(set) => ("ReplicaSet", object::name(set)),
        None => ("Deployment", object::name(deployment)),
    };
    let say = |status: &str, reason: &str, what: &str| {
        let message = format!("{kind} {} {what}", aplomb_apimachinery::field::go_quote(name));
        progressing(status, reason, &message, now)
    };
    if is_complete(deployment, status) {
        set(status, say("True", DONE, "has successfully progressed."));
    } else if is_getting_on(deployment, status) {
        let mut condition = say("True", "ReplicaSetUpdated", "is progressing.");
        // Progress moves the time even when the reason stays, so the old one goes first.
        if let Some(current) = progress(deployment) {
            if current["status"] == "True" {
                condition["lastTransitionTime"] = current["lastTransitionTime"].clone();
            }
            remove(status, PROGRESSING);
        }
        set(status, condition);
    } else if has_timed_out(status, deadline, now) {
        set(status, say("False", TIMED_OUT, "has timed out progressing."));
    }
}

/// Why pods of a replica set are missing; the new one speaks first.
fn failure(sets: &[Value], new: Option<&Value>) -> Option<Value> {
    let mut sets = new.into_iter().chain(sets);
    let failure = sets.find_map(|set| find(set.get("status")?, FAILURE))?;
    let mut failure = failure.clone();
    failure["lastUpdateTime"] = failure["lastTransitionTime"].clone();
    Some(failure)
}

/// When to look again because a rollout that stands still may have run out of time.
pub(super) fn check_in(deployment: &Value, status: &Value, now: Timestamp) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let current = progress(deployment)?;
    if is_complete(deployment, status) || current["reason"] == TIMED_OUT {
        return None;
    }
    let left = left(current, deadline, now)?;
    let later = Duration::try_from(left).unwrap_or(Duration::ZERO);
    Some(later + Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    const BEGIN: &str = "2026-01-01T00:00:00Z";

    fn at(second: i64) -> Timestamp {
        let begin: Timestamp = BEGIN.parse().unwrap();
        begin + SignedDuration::from_secs(second)
    }

    fn deployment(status: &Value) -> Value {
        json!({
            "metadata": { "name": "web", "generation": 1 },
            "spec": {
                "replicas": 2, "progressDeadlineSeconds": 600,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            },
            "status": status,
        })
    }

    fn set(pods: i64, available: i64) -> Value {
        json!({
            "metadata": { "name": "web-1" },
            "spec": { "replicas": 2 },
            "status": { "replicas": pods, "readyReplicas": available, "availableReplicas": available,
                "observedGeneration": 1, "terminatingReplicas": 0 },
        })
    }

    fn look(deployment: &Value, pods: i64, available: i64, second: i64) -> Value {
        let set = set(pods, available);
        of_rollout(deployment, std::slice::from_ref(&set), Some(&set), at(second))
    }

    fn said(status: &Value) -> Vec<(&str, &str, &str)> {
        let conditions = status["conditions"].as_array().unwrap();
        let said = conditions.iter().map(|it| {
            let text = |member: &str| it[member].as_str().unwrap();
            (text("type"), text("status"), text("reason"))
        });
        said.collect()
    }

    #[test]
    fn a_rollout_gets_on_and_is_done() {
        let started = deployment(&json!({}));
        let status = look(&started, 2, 0, 1);
        assert_eq!(
            said(&status),
            [
                ("Available", "False", "MinimumReplicasUnavailable"),
                ("Progressing", "True", "ReplicaSetUpdated"),
            ]
        );
        assert_eq!(status["unavailableReplicas"], 2);
        let status = look(&deployment(&status), 2, 2, 2);
        assert_eq!(
            said(&status),
            [
                ("Available", "True", "MinimumReplicasAvailable"),
                ("Progressing", "True", "NewReplicaSetAvailable"),
            ]
        );
        let message = "ReplicaSet \"web-1\" has successfully progressed.";
        assert_eq!(status["conditions"][1]["message"], message);
        assert_eq!(status.get("unavailableReplicas"), None);
    }

    #[test]
    fn one_that_stands_still_runs_out_of_time_once() {
        let status = look(&deployment(&json!({})), 2, 0, 0);
        let waiting = deployment(&status);
        assert_eq!(look(&waiting, 2, 0, 600), status);
        let again = check_in(&waiting, &status, at(100)).unwrap();
        assert_eq!(again, Duration::from_secs(501));
        let late = look(&waiting, 2, 0, 601);
        assert_eq!(said(&late)[1], ("Progressing", "False", "ProgressDeadlineExceeded"));
        assert_eq!(check_in(&deployment(&late), &late, at(602)), None);
    }

    #[test]
    fn pausing_and_resuming_are_conditions() {
        let mut deployment = deployment(&json!({}));
        deployment["spec"]["paused"] = true.into();
        let paused = pause(&deployment, at(1)).unwrap();
        assert_eq!(paused["reason"], "DeploymentPaused");
        deployment["status"]["conditions"] = json!([paused]);
        assert_eq!(pause(&deployment, at(2)), None);
        deployment["spec"]["paused"] = false.into();
        assert_eq!(pause(&deployment, at(3)).unwrap()["reason"], "DeploymentResumed");
    }
}
