//! What a deployment says of its rollout.

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
    of_rollout(
        deployment,
        std::slice::from_ref(&set),
        Some(&set),
        at(second),
    )
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
    assert_eq!(
        said(&late)[1],
        ("Progressing", "False", "ProgressDeadlineExceeded")
    );
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
    assert_eq!(
        pause(&deployment, at(3)).unwrap()["reason"],
        "DeploymentResumed"
    );
}
