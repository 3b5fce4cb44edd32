//! Objects of every kind of ours: one with the status its operator writes, one not observed yet.

use serde_json::{Value, json};

const CREATED: &str = "2026-01-01T00:00:00Z";
const CREATED_MICRO: &str = "2026-01-01T00:00:00.000000Z";

/// Plural, object, and status.
pub(crate) type Fixture = (&'static str, Value, Value);

pub(crate) fn objects() -> Vec<Fixture> {
    [tunnels(), infrastructure(), coder(), egress()].concat()
}

fn tunnels() -> Vec<Fixture> {
    let rule = json!({ "endpoint": "http://localhost:3000", "connector": { "name": "laptop" } });
    let tunnel = json!({ "rules": [{ "backends": [rule] }] });
    let offline = condition("Ready", "False", "ConnectorOffline");
    let told = json!({ "hostname": "app.example.com", "connector": "laptop", "conditions": [offline] });
    let quiet = condition("Online", "Unknown", "Quiet");
    let seen = json!({ "lastSeen": CREATED_MICRO, "conditions": [quiet] });
    vec![
        ("httpproxies", object_fixture("HTTPProxy", "app", &tunnel), told),
        ("connectors", object_fixture("Connector", "laptop", &json!({})), seen),
    ]
}

fn infrastructure() -> Vec<Fixture> {
    let class = json!({ "domain": "abroad.example.com" });
    let replica = json!({
        "listen": "192.0.2.1:80", "endpointID": "ab".repeat(32), "leaseDurationSeconds": 15,
        "tunnels": 3, "renewTime": CREATED_MICRO,
    });
    let claim = json!({ "claimant": { "namespace": "default", "name": "app", "uid": "1" } });
    let (classes, replicas, claims) = ("connectorclasses", "gatewayreplicas", "hostnameclaims");
    vec![
        (classes, object_fixture("ConnectorClass", "abroad", &class), Value::Null),
        (
            replicas,
            object_fixture("GatewayReplica", "gateway-1", &replica),
            Value::Null,
        ),
        (
            claims,
            object_fixture("HostnameClaim", "app.example.com", &claim),
            Value::Null,
        ),
    ]
}

fn coder() -> Vec<Fixture> {
    let server = json!({ "url": "https://coder.example.com", "tokenSecretRef": { "name": "coder-token" } });
    let daemons = json!({ "server": server, "image": "example.com/coder:1" });
    let running = json!({
        "conditions": [condition("Ready", "True", "Running")], "phase": "Ready", "daemons": "2/2",
        "provisionerKeyName": "on-prem-1",
    });
    let proxy = json!({ "bootstrap": { "server": server }, "image": "example.com/coder:1" });
    let throttled = condition("Ready", "Unknown", "Throttled");
    let told = json!({ "conditions": [throttled], "registered": false, "proxyName": "eu" });
    vec![
        (
            "coderprovisioners",
            object_fixture("CoderProvisioner", "on-prem", &daemons),
            running,
        ),
        (
            "coderworkspaceproxies",
            object_fixture("CoderWorkspaceProxy", "eu", &proxy),
            told,
        ),
    ]
}

fn egress() -> Vec<Fixture> {
    let spec = json!({ "floatingIP": { "name": "web-egress" }, "tokenSecretRef": { "name": "hcloud" } });
    let told = json!({
        "ip": "192.0.2.7", "activeNode": "gateway-a", "conditions": [condition("Ready", "True", "Routed")],
        "candidates": { "ready": 2, "total": 2 },
    });
    vec![("stableegresses", object_fixture("StableEgress", "web", &spec), told)]
}

/// A second object of the kind without a status.
pub(crate) fn without_status(object: &Value) -> Value {
    let mut bare = object.clone();
    let name = object["metadata"]["name"].as_str().expect("a name");
    let other = match name.split_once('.') {
        Some((_, domain)) => format!("bare.{domain}"),
        None => "bare-one".to_owned(),
    };
    bare["metadata"]["name"] = other.into();
    bare["metadata"]["labels"] = json!({ "team": "blue" });
    bare
}

fn object_fixture(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "aplomb.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({ "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": CREATED })
}
