//! Specs that are accepted, and the defaults that a server fills in.

use aplomb_api::coder::{CoderProvisionerSpec, CoderWorkspaceProxySpec};
use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::{PROVISIONER, PROXY, provisioner, proxy};

pub(crate) async fn defaults(lab: Lab) {
    let created = lab.create(PROVISIONER, "team", &provisioner()).await;
    let server = json!({
        "url": "https://coder.example.com",
        "tokenSecretRef": { "name": "coder-token", "key": "token" },
    });
    let expected = json!({
        "server": server,
        "organizationName": "default",
        "key": {},
        "replicas": 1,
        "terminationGracePeriodSeconds": 600,
        "bypassRateLimit": false,
        "deletionDeadline": "24h",
    });
    assert_eq!(created.expect("accepted"), expected);
    let created = lab.create(PROXY, "eu-west", &proxy()).await;
    let expected = json!({
        "bootstrap": { "server": server, "bypassRateLimit": false, "deletionDeadline": "24h" },
        "replicas": 1,
        "service": { "type": "ClusterIP", "port": 80 },
        "derpOnly": false,
    });
    assert_eq!(created.expect("accepted"), expected);
}

fn pods() -> Value {
    json!({
        "image": "registry.example.com:5000/coder@sha256:0f",
        "replicas": 0,
        "extraEnv": [
            { "name": "TF_LOG", "value": "info" },
            { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            { "name": "SECRET", "valueFrom": { "secretKeyRef": {
                "name": "more", "key": "a.b_c-D", "optional": true,
            } } },
            { "name": "CONFIG", "valueFrom": { "configMapKeyRef": { "name": "more", "key": "x" } } },
        ],
        "resources": {
            "requests": { "cpu": "500m", "memory": "1Gi" },
            "limits": { "cpu": 2, "memory": "2e9", "ephemeral-storage": ".5Gi" },
        },
        "imagePullSecrets": [{ "name": "one" }, { "name": "two" }],
    })
}

fn with_pods(mut spec: Value) -> Value {
    let Value::Object(more) = pods() else {
        unreachable!("an object")
    };
    spec.as_object_mut().expect("an object").extend(more);
    spec
}

pub(crate) async fn all_fields(lab: Lab) {
    let spec = with_pods(json!({
        "controlPlaneRef": { "name": "coder" },
        "organizationName": "Team_1.west-2",
        "key": {
            "name": "team", "secretName": "team-key", "secretKey": "the.key", "rotateAfter": "720h",
        },
        "tags": { "scope": "user", "owner": "", "environment": "on prem, größer" },
        "extraArgs": ["--log-json", "--name=a"],
        "terminationGracePeriodSeconds": 0,
        "bypassRateLimit": true,
        "deletionDeadline": "1m",
    }));
    let created = lab.create(PROVISIONER, "team", &spec).await;
    let spec = serde_json::from_value::<CoderProvisionerSpec>(created.expect("accepted"));
    let limits = spec.expect("understood").resources.expect("given").limits;
    assert_eq!(limits.expect("given")["cpu"].0, "2");
    let service = json!({
        "type": "LoadBalancer", "port": 443, "annotations": { "example.com/internal": "true" },
    });
    let registered = with_pods(json!({
        "bootstrap": {
            "controlPlaneRef": { "name": "coder" }, "proxyName": "eu-west", "displayName": "Europe West",
            "icon": "https://icons.example.com/eu.png", "generatedTokenSecretName": "eu-token",
            "bypassRateLimit": true, "deletionDeadline": "1h30m",
        },
        "service": service, "derpOnly": true, "extraArgs": ["--log-json"],
    }));
    let direct = json!({
        "primaryAccessURL": "https://coder.example.com",
        "proxySessionTokenSecretRef": { "name": "eu-token", "key": "session" },
    });
    for spec in [registered, direct] {
        let created = lab.create(PROXY, "eu.west", &spec).await;
        serde_json::from_value::<CoderWorkspaceProxySpec>(created.expect("accepted")).expect("understood");
    }
}
