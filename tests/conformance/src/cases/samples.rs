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

/// One object of every kind the box serves, each valid by itself.
pub(super) fn all(t: &Trial) -> Vec<(String, Value)> {
    let name = &t.namespace;
    let api_group = "rbac.authorization.k8s.io";
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let subjects = json!([{ "apiGroup": api_group, "kind": "User", "name": "somebody" }]);
    let reference = |kind: &str| json!({ "apiGroup": api_group, "kind": kind, "name": "sample" });
    let ports = json!([{ "name": "http", "port": 80 }]);
    let kind = |api_version: &str, kind: &str, name: &str, rest: Value| {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": { "name": name },
        });
        json_patch::merge(&mut object, &rest);
        object
    };
    let workload = json!({ "spec": { "selector": selector(), "template": template() } });
    let slice = json!({
        "addressType": "IPv4", "ports": ports, "endpoints": [{ "addresses": ["192.0.2.1"] }],
    });
    let budget = json!({ "spec": { "selector": selector(), "minAvailable": 1 } });
    let policy = json!({ "spec": { "podSelector": selector(), "policyTypes": ["Ingress"] } });
    let service =
        json!({ "spec": { "clusterIP": "None", "selector": { "app": "a" }, "ports": ports } });
    let binding = |role: &str| json!({ "roleRef": reference(role), "subjects": subjects });
    vec![
        (
            "/api/v1/nodes".to_owned(),
            kind("v1", "Node", name, json!({})),
        ),
        (
            t.core("configmaps"),
            kind("v1", "ConfigMap", "sample", json!({ "data": { "k": "v" } })),
        ),
        (
            t.core("secrets"),
            kind("v1", "Secret", "sample", json!({ "data": { "k": "dg==" } })),
        ),
        (
            t.core("serviceaccounts"),
            kind("v1", "ServiceAccount", "sample", json!({})),
        ),
        (t.core("services"), kind("v1", "Service", "sample", service)),
        (
            t.core("pods"),
            kind("v1", "Pod", "sample", json!({ "spec": pod_spec() })),
        ),
        (
            t.api("apps/v1", "deployments"),
            kind("apps/v1", "Deployment", "sample", workload.clone()),
        ),
        (
            t.api("apps/v1", "replicasets"),
            kind("apps/v1", "ReplicaSet", "sample", workload),
        ),
        (
            t.api("coordination.k8s.io/v1", "leases"),
            kind(
                "coordination.k8s.io/v1",
                "Lease",
                "sample",
                json!({ "spec": { "holderIdentity": "me" } }),
            ),
        ),
        (
            t.api("discovery.k8s.io/v1", "endpointslices"),
            kind("discovery.k8s.io/v1", "EndpointSlice", "sample", slice),
        ),
        (
            t.api("policy/v1", "poddisruptionbudgets"),
            kind("policy/v1", "PodDisruptionBudget", "sample", budget),
        ),
        (
            t.api("networking.k8s.io/v1", "networkpolicies"),
            kind("networking.k8s.io/v1", "NetworkPolicy", "sample", policy),
        ),
        (
            t.api(rbac, "roles"),
            kind(rbac, "Role", "sample", json!({ "rules": rules })),
        ),
        (
            t.api(rbac, "rolebindings"),
            kind(rbac, "RoleBinding", "sample", binding("Role")),
        ),
    ]
}
