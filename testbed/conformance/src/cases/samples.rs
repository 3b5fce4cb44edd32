//! Small valid objects of the built-in kinds, with the path of their collection.

use serde_json::{Value, json};

use crate::case_run::CaseRun;

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
pub(super) fn unconditional(t: &CaseRun) -> Vec<(String, Value)> {
    let named = |object: Value| {
        let mut object = object;
        object["metadata"] = json!({ "name": "sample" });
        object
    };
    let workload = json!({ "spec": { "selector": selector(), "template": template() } });
    vec![
        (t.core("configmaps"), named(json!({ "data": { "k": "v" } }))),
        (t.core("secrets"), named(json!({ "stringData": { "k": "v" } }))),
        (t.core("pods"), named(json!({ "spec": pod_spec() }))),
        (t.core("serviceaccounts"), named(json!({}))),
        (t.api("apps/v1", "deployments"), named(workload.clone())),
        (t.api("apps/v1", "replicasets"), named(workload)),
    ]
}

/// An object of a kind, with everything but its metadata.
#[allow(clippy::needless_pass_by_value, reason = "samples write it in place")]
fn of(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "name": name },
    });
    json_patch::merge(&mut object, &rest);
    object
}

/// One object of every kind the box serves, each valid by itself.
pub(super) fn all(t: &CaseRun) -> Vec<(String, Value)> {
    [core(t), workloads(t), networking(t), access(t)].concat()
}

fn core(t: &CaseRun) -> Vec<(String, Value)> {
    let lease = json!({ "spec": { "holderIdentity": "me" } });
    let group = "coordination.k8s.io/v1";
    let data = |value: &str| json!({ "data": { "k": value } });
    vec![
        ("/api/v1/nodes".to_owned(), of("v1", "Node", &t.namespace, json!({}))),
        (t.core("configmaps"), of("v1", "ConfigMap", "sample", data("v"))),
        (t.core("secrets"), of("v1", "Secret", "sample", data("dg=="))),
        (
            t.core("serviceaccounts"),
            of("v1", "ServiceAccount", "sample", json!({})),
        ),
        (t.api(group, "leases"), of(group, "Lease", "sample", lease)),
    ]
}

fn workloads(t: &CaseRun) -> Vec<(String, Value)> {
    let pod = json!({ "spec": pod_spec() });
    let workload = json!({ "spec": { "selector": selector(), "template": template() } });
    let budget = json!({ "spec": { "selector": selector(), "minAvailable": 1 } });
    let (apps, policy) = ("apps/v1", "policy/v1");
    vec![
        (t.core("pods"), of("v1", "Pod", "sample", pod)),
        (
            t.api(apps, "deployments"),
            of(apps, "Deployment", "sample", workload.clone()),
        ),
        (t.api(apps, "replicasets"), of(apps, "ReplicaSet", "sample", workload)),
        (
            t.api(policy, "poddisruptionbudgets"),
            of(policy, "PodDisruptionBudget", "sample", budget),
        ),
    ]
}

fn networking(t: &CaseRun) -> Vec<(String, Value)> {
    let ports = json!([{ "name": "http", "port": 80 }]);
    let service = json!({
        "spec": { "clusterIP": "None", "selector": { "app": "a" }, "ports": ports },
    });
    let slice = json!({
        "addressType": "IPv4", "ports": ports, "endpoints": [{ "addresses": ["192.0.2.1"] }],
    });
    let policy = json!({ "spec": { "podSelector": selector(), "policyTypes": ["Ingress"] } });
    let (discovery, networking) = ("discovery.k8s.io/v1", "networking.k8s.io/v1");
    vec![
        (t.core("services"), of("v1", "Service", "sample", service)),
        (
            t.api(discovery, "endpointslices"),
            of(discovery, "EndpointSlice", "sample", slice),
        ),
        (
            t.api(networking, "networkpolicies"),
            of(networking, "NetworkPolicy", "sample", policy),
        ),
    ]
}

fn access(t: &CaseRun) -> Vec<(String, Value)> {
    let (group, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let binding = json!({
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "sample" },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": "somebody" }],
    });
    vec![
        (
            t.api(version, "roles"),
            of(version, "Role", "sample", json!({ "rules": rules })),
        ),
        (
            t.api(version, "rolebindings"),
            of(version, "RoleBinding", "sample", binding),
        ),
    ]
}
