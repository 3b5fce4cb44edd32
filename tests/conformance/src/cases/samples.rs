//! Small valid objects of the built-in kinds, with the path of their collection.

use serde_json::{Value, json};

use crate::trial::Trial;

fn pod_spec() -> Value {
    json!({ "containers": [{ "name": "main", "image": "registry.example.com/main:1" }] })
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "a" } }, "spec": pod_spec() })
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "a" } })
}

/// One object of every kind whose PUT needs no version.
pub(super) fn unconditional(t: &Trial) -> Vec<(String, Value)> {
    let named = |object: Value| {
        let mut object = object;
        object["metadata"] = json!({ "name": "sample" });
        object
    };
    let workload = json!({ "spec": { "selector": selector(), "template": template() } });
    vec![
        (t.core("configmaps"), named(json!({ "data": { "k": "v" } }))),
        (
            t.core("secrets"),
            named(json!({ "stringData": { "k": "v" } })),
        ),
        (t.core("pods"), named(json!({ "spec": pod_spec() }))),
        (t.core("serviceaccounts"), named(json!({}))),
        (t.api("apps/v1", "deployments"), named(workload.clone())),
        (t.api("apps/v1", "replicasets"), named(workload)),
    ]
}
