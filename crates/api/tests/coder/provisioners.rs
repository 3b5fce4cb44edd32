//! Provisioners that are rejected.

use serde_json::{Map, Value, json};

use crate::Lab;
use crate::fixtures::{PROVISIONER, provisioner};
use crate::lab::Refusal;

fn secret_refusals() -> Vec<Refusal> {
    let key = |name: &str, value: &str| json!({ "key": { name: value } });
    vec![
        (key("secretName", ""), "spec.key.secretName", "at least 1"),
        (key("secretName", "Team"), "spec.key.secretName", "like web-1"),
        (key("secretName", "a/b"), "spec.key.secretName", "like web-1"),
        (key("secretName", &"a".repeat(254)), "spec.key.secretName", "253"),
        (key("secretName", "coder-token"), "spec", "overwrite the token"),
        (key("secretKey", ""), "spec.key.secretKey", "at least 1"),
        (key("secretKey", "a b"), "spec.key.secretKey", "like token"),
        (
            key("secretKey", "ca.crt"),
            "spec.key.secretKey",
            "choose another key, like key",
        ),
    ]
}

fn tag_refusals() -> Vec<Refusal> {
    let at = "spec.tags";
    let many: Map<String, Value> = (0..33).map(|n| (format!("t{n}"), json!(""))).collect();
    let long = "k".repeat(129);
    vec![
        (json!({ "tags": many }), at, "at most 32"),
        (json!({ "tags": { "": "a" } }), at, "1 to 128 characters"),
        (json!({ "tags": { long: "a" } }), at, "1 to 128 characters"),
        (json!({ "tags": { "a": "v".repeat(257) } }), "spec.tags.a", "256"),
        (json!({ "tags": { "a\nb": "c" } }), at, "control character"),
        (json!({ "tags": { "a": "b\u{0}" } }), at, "control character"),
        (json!({ "tags": { "scope": "site" } }), at, "organization or user"),
        (json!({ "tags": { "scope": "" } }), at, "organization or user"),
        (json!({ "tags": { "a": 7 } }), "spec.tags.a", "string"),
    ]
}

fn duration_refusals() -> Vec<Refusal> {
    let rotate = |text: &str| json!({ "key": { "rotateAfter": text } });
    let deadline = |text: &str| json!({ "deletionDeadline": text });
    let (at, until) = ("spec.key.rotateAfter", "spec.deletionDeadline");
    let duration = "write it like 30s";
    vec![
        (rotate("59m"), at, "write 1h or more"),
        (rotate("0s"), at, "write 1h or more"),
        (rotate("-1h"), at, duration),
        (rotate("30d"), at, duration),
        (deadline("59s"), until, "write 1m or more"),
        (deadline("0s"), until, "write 1m or more"),
        (deadline("never"), until, duration),
    ]
}

fn other_refusals() -> Vec<Refusal> {
    let grace = |seconds: i64| json!({ "terminationGracePeriodSeconds": seconds });
    let organization = |name: &str| json!({ "organizationName": name });
    let (at, words) = ("spec.organizationName", "as its URL at the server has it");
    vec![
        (json!({ "replicas": -1 }), "spec.replicas", "greater than or equal to 0"),
        (
            json!({ "replicas": 1001 }),
            "spec.replicas",
            "less than or equal to 1000",
        ),
        (
            grace(-1),
            "spec.terminationGracePeriodSeconds",
            "greater than or equal to 0",
        ),
        (organization(""), at, "at least 1 char"),
        (organization("a b"), at, words),
        (organization("a/b"), at, words),
        (organization(".."), at, words),
        (organization(&"a".repeat(129)), at, "128"),
    ]
}

pub(crate) async fn rejects(lab: Lab) {
    let table = [secret_refusals(), tag_refusals(), duration_refusals(), other_refusals()].concat();
    lab.refuses(PROVISIONER, provisioner(), table).await;
}

pub(crate) async fn default_secret(lab: Lab) {
    let mut spec = provisioner();
    spec["server"]["tokenSecretRef"]["name"] = json!("team-provisioner-key");
    let said = lab.create(PROVISIONER, "team", &spec).await;
    let said = said.expect_err("the key would overwrite the token");
    assert!(said.contains("Set spec.key.secretName"), "{said}");
    let created = lab.create(PROVISIONER, "other", &spec).await;
    assert!(created.is_ok(), "{created:?}");
    spec["key"] = json!({ "secretName": "team-key" });
    let created = lab.create(PROVISIONER, "team", &spec).await;
    assert!(created.is_ok(), "{created:?}");
}

/// A text that is not a duration is not also reported as too short.
pub(crate) async fn reports_invalid_duration_once(lab: Lab) {
    let mut spec = provisioner();
    spec["key"] = json!({ "rotateAfter": "30d" });
    spec["deletionDeadline"] = json!("1d");
    let said = lab.create(PROVISIONER, "team", &spec).await;
    let said = said.expect_err("days are not a unit");
    assert!(said.contains("write it like 30s"), "{said}");
    assert!(!said.contains("or more"), "{said}");
}
