//! The built-in kinds: what each fills in, and what each refuses.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::with;

pub(super) const CASES: &[Case] = &[
    Case::new("kinds/every-kind-is-defaulted", |t| Box::pin(defaulted(t))),
    Case::new("kinds/every-kind-can-be-read-changed-and-deleted", |t| {
        Box::pin(life(t))
    }),
    Case::new("kinds/every-kind-can-be-applied", |t| Box::pin(applied(t))),
    Case::new("kinds/unknown-fields-warn-or-are-refused", |t| {
        Box::pin(unknown_fields(t))
    }),
    Case::new("kinds/a-secret-takes-string-data", |t| Box::pin(secret(t))),
    Case::new("kinds/an-immutable-config-map", |t| Box::pin(immutable(t))),
    Case::new("kinds/a-config-map-key-is-checked", |t| Box::pin(config_map_keys(t))),
    Case::new("kinds/a-namespace-is-active-and-finalized", |t| Box::pin(namespace(t))),
    Case::new("kinds/a-node-status-is-its-own", |t| Box::pin(node(t))),
    Case::new("kinds/a-pod-spec-cannot-change", |t| Box::pin(pod(t))),
    Case::new("kinds/a-deployment-selector-must-match", |t| Box::pin(deployment(t))),
    Case::new("kinds/a-deployment-has-a-generation", |t| {
        Box::pin(deployment_generation(t))
    }),
    Case::new("kinds/a-service-gets-an-address", |t| Box::pin(service(t))),
    Case::new("kinds/a-bad-service-is-invalid", |t| Box::pin(bad_service(t))),
    Case::new("kinds/an-endpoint-slice-address-type-is-fixed", |t| Box::pin(slice(t))),
    Case::new("kinds/events-of-both-groups-are-one", |t| Box::pin(events(t))),
    Case::new("kinds/a-role-reference-cannot-change", |t| Box::pin(role_reference(t))),
    Case::new("kinds/a-disruption-budget-takes-one-limit", |t| Box::pin(budget(t))),
    Case::new("kinds/a-network-policy-is-checked", |t| Box::pin(network_policy(t))),
];

async fn defaulted(t: &CaseRun) -> Result<()> {
    for (path, object) in super::samples::all(t) {
        t.create(&path, &object).await?.code(201)?;
    }
    Ok(())
}

fn named(path: &str, object: &Value) -> String {
    format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default())
}

async fn life(t: &CaseRun) -> Result<()> {
    for (path, object) in super::samples::all(t) {
        let one = named(&path, &object);
        let made = t.create(&path, &object).await?.code(201)?;
        t.get(&one).await?.code(200)?.has("", made.body.clone())?;
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        let patched = t.merge(&one, &label).await?.code(200)?;
        let again = with(&patched.body, json!({ "metadata": { "labels": { "a": "c" } } }));
        t.put(&one, &again).await?.code(200)?;
        t.put(&one, &again).await?.refused(409, "Conflict")?;
        t.delete_with(&one, &json!({ "gracePeriodSeconds": 0 }))
            .await?
            .code(200)?;
        t.get(&one).await?.refused(404, "NotFound")?;
    }
    Ok(())
}

async fn applied(t: &CaseRun) -> Result<()> {
    for (path, object) in super::samples::all(t) {
        let one = named(&path, &object);
        t.apply(&one, "one", &object).await?.code(201)?;
        let label = with(&object, json!({ "metadata": { "labels": { "a": "b" } } }));
        t.apply(&one, "two", &label).await?;
        t.apply(&one, "one", &object).await?.code(200)?;
        t.delete_with(&one, &json!({ "gracePeriodSeconds": 0 }))
            .await?
            .code(200)?;
    }
    Ok(())
}

async fn unknown_fields(t: &CaseRun) -> Result<()> {
    let body = json!({
        "metadata": { "name": "a", "unheard": 1 }, "data": { "k": "v" }, "extra": { "deep": true },
    });
    let strict = format!("{}?fieldValidation=Strict", t.core("configmaps"));
    t.create(&strict, &body).await?.refused(400, "BadRequest")?;
    t.create(&t.core("configmaps"), &body)
        .await?
        .code(201)?
        .warns("unknown field \"extra\"")?;
    let pod = json!({ "metadata": { "name": "a" }, "spec": {
        "containers": [{ "name": "c", "image": "registry.example.com/c:1", "colour": "red" }],
    } });
    let strict = format!("{}?fieldValidation=Strict", t.core("pods"));
    t.create(&strict, &pod)
        .await?
        .refused(400, "BadRequest")?
        .says("unknown field \"spec.containers[0].colour\"")?;
    Ok(())
}

async fn secret(t: &CaseRun) -> Result<()> {
    let body = json!({
        "metadata": { "name": "a" }, "data": { "a": "YQ==" }, "stringData": { "b": "text", "a": "over" },
    });
    let made = t.create(&t.core("secrets"), &body).await?.code(201)?;
    made.has("/data/b", "dGV4dA==")?
        .has("/data/a", "b3Zlcg==")?
        .lacks("/stringData")?;
    let typed = json!({ "type": "kubernetes.io/tls", "metadata": { "name": "b" } });
    t.create(&t.core("secrets"), &typed).await?.refused(422, "Invalid")?;
    t.merge(&t.core("secrets/a"), &json!({ "type": "other" }))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn immutable(t: &CaseRun) -> Result<()> {
    let body = json!({ "metadata": { "name": "a" }, "immutable": true, "data": { "k": "v" } });
    t.create(&t.core("configmaps"), &body).await?.code(201)?;
    let path = t.core("configmaps/a");
    t.merge(&path, &json!({ "data": { "k": "w" } }))
        .await?
        .refused(422, "Invalid")?;
    t.merge(&path, &json!({ "immutable": false }))
        .await?
        .refused(422, "Invalid")?;
    t.merge(&path, &json!({ "metadata": { "labels": { "a": "b" } } }))
        .await?
        .code(200)?;
    Ok(())
}

async fn config_map_keys(t: &CaseRun) -> Result<()> {
    for data in [json!({ "a b": "x" }), json!({ "..": "x" }), json!({ "": "x" })] {
        let body = json!({ "metadata": { "name": "a" }, "data": data });
        t.create(&t.core("configmaps"), &body).await?.refused(422, "Invalid")?;
    }
    let both = json!({ "metadata": { "name": "a" }, "data": { "k": "x" }, "binaryData": { "k": "eA==" } });
    t.create(&t.core("configmaps"), &both).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn namespace(t: &CaseRun) -> Result<()> {
    let name = format!("{}-x", t.namespace);
    let made = t
        .create("/api/v1/namespaces", &json!({ "metadata": { "name": name } }))
        .await?;
    let made = made.code(201)?.has("/status/phase", "Active")?;
    let made = made.has("/spec/finalizers", json!(["kubernetes"]))?;
    made.has("/metadata/labels", json!({ "kubernetes.io/metadata.name": name }))?;
    let bad = json!({ "metadata": { "name": "has.dot" } });
    t.create("/api/v1/namespaces", &bad).await?.refused(422, "Invalid")?;
    t.delete("/api/v1/namespaces/default")
        .await?
        .refused(403, "Forbidden")?;
    Ok(())
}

async fn node(t: &CaseRun) -> Result<()> {
    let name = t.namespace.clone();
    let path = format!("/api/v1/nodes/{name}");
    let body = json!({ "metadata": { "name": name }, "status": { "phase": "Running" } });
    t.create("/api/v1/nodes", &body).await?.code(201)?;
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    t.merge(&path, &ready).await?.code(200)?;
    let set = t.merge(&format!("{path}/status"), &ready).await?.code(200)?;
    set.has("/status/conditions/0/type", "Ready")?;
    t.delete(&path).await?.code(200)?;
    Ok(())
}

async fn pod(t: &CaseRun) -> Result<()> {
    let containers = json!([{ "name": "c", "image": "registry.example.com/c:1" }]);
    let body = json!({ "metadata": { "name": "a" }, "spec": { "containers": containers } });
    t.create(&t.core("pods"), &body)
        .await?
        .code(201)?
        .has("/status/phase", "Pending")?;
    let path = t.core("pods/a");
    t.merge(&path, &json!({ "spec": { "hostNetwork": true } }))
        .await?
        .refused(422, "Invalid")?;
    let running = json!({ "status": { "phase": "Running", "podIP": "192.0.2.1" } });
    t.merge(&format!("{path}/status"), &running).await?.code(200)?;
    t.create(&t.core("pods"), &json!({ "metadata": { "name": "b" }, "spec": {} }))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

fn workload(labels: &Value) -> Value {
    json!({
        "metadata": { "name": "a" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "c", "image": "registry.example.com/c:1" }] },
            },
        },
    })
}

async fn deployment(t: &CaseRun) -> Result<()> {
    let path = t.api("apps/v1", "deployments");
    t.create(&path, &workload(&json!({ "app": "other" })))
        .await?
        .refused(422, "Invalid")?;
    t.create(&path, &workload(&json!({ "app": "a" }))).await?.code(201)?;
    let selector = json!({ "spec": { "selector": { "matchLabels": { "more": "b" } } } });
    t.merge(&format!("{path}/a"), &selector)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn deployment_generation(t: &CaseRun) -> Result<()> {
    let path = t.api("apps/v1", "deployments");
    let made = t.create(&path, &workload(&json!({ "app": "a" }))).await?.code(201)?;
    made.has("/metadata/generation", 1)?;
    let one = format!("{path}/a");
    t.merge(&one, &json!({ "spec": { "replicas": 3 } }))
        .await?
        .has("/metadata/generation", 2)?;
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    t.merge(&one, &label).await?.has("/metadata/generation", 2)?;
    let status = json!({ "status": { "replicas": 3, "observedGeneration": 2 } });
    let set = t.merge(&format!("{one}/status"), &status).await?.code(200)?;
    set.has("/status/replicas", 3)?.has("/metadata/generation", 2)?;
    t.merge(&one, &json!({ "status": { "replicas": 9 } }))
        .await?
        .has("/status/replicas", 3)?;
    Ok(())
}

async fn service(t: &CaseRun) -> Result<()> {
    let body = json!({
        "metadata": { "name": "a" }, "spec": { "selector": { "app": "a" }, "ports": [{ "port": 80 }] },
    });
    let made = t
        .quiet("POST", &t.core("services"), &[], body.to_string())
        .await?
        .code(201)?;
    let address = made.text("/spec/clusterIP");
    ensure!(address.starts_with("10.0.0."), "{address}");
    t.hide(&address, "address").await;
    t.record(&made).await;
    let path = t.core("services/a");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    t.merge(&path, &label)
        .await?
        .code(200)?
        .has("/spec/clusterIP", address)?;
    let other = json!({ "spec": { "clusterIP": "10.0.0.250" } });
    t.merge(&path, &other).await?.refused(422, "Invalid")?;
    t.delete(&path).await?.code(200)?;
    Ok(())
}

async fn bad_service(t: &CaseRun) -> Result<()> {
    let wrong = [
        json!({ "ports": [] }),
        json!({ "ports": [{ "port": 0 }] }),
        json!({ "ports": [{ "port": 80 }, { "port": 81 }] }),
        json!({ "ports": [{ "port": 80 }], "type": "Nonsense" }),
        json!({ "ports": [{ "port": 80 }], "clusterIP": "192.0.2.1" }),
    ];
    for spec in wrong {
        let body = json!({ "metadata": { "name": "a" }, "spec": spec });
        t.create(&t.core("services"), &body).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn slice(t: &CaseRun) -> Result<()> {
    let path = t.api("discovery.k8s.io/v1", "endpointslices");
    let body = json!({
        "metadata": { "name": "a" }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["192.0.2.1"] }], "ports": [{ "port": 80 }],
    });
    t.create(&path, &body).await?.code(201)?;
    let one = format!("{path}/a");
    t.merge(&one, &json!({ "addressType": "IPv6" }))
        .await?
        .refused(422, "Invalid")?;
    let wrong = json!({ "endpoints": [{ "addresses": ["nonsense"] }] });
    t.merge(&one, &wrong).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn events(t: &CaseRun) -> Result<()> {
    let body = json!({
        "metadata": { "name": "a" }, "reason": "Tested", "type": "Normal", "action": "Test",
        "eventTime": "2026-01-02T03:04:05.000000Z", "note": "a note",
        "reportingController": "example.com/c", "reportingInstance": "c-1",
        "regarding": { "kind": "ConfigMap", "namespace": t.namespace, "name": "x" },
    });
    let path = t.api("events.k8s.io/v1", "events");
    let made = t.create(&path, &body).await?.code(201)?;
    let core = t.get(&t.core("events/a")).await?.code(200)?.has("/message", "a note")?;
    ensure!(core.uid() == made.uid(), "two events");
    core.has("/involvedObject/name", "x")?;
    let old = json!({
        "metadata": { "name": "b" }, "reason": "Tested", "message": "old",
        "involvedObject": { "kind": "ConfigMap", "namespace": t.namespace, "name": "x" },
    });
    t.create(&t.core("events"), &old).await?.code(201)?;
    t.get(&format!("{path}/b")).await?.code(200)?.has("/note", "old")?;
    Ok(())
}

async fn role_reference(t: &CaseRun) -> Result<()> {
    let path = t.api("rbac.authorization.k8s.io/v1", "rolebindings");
    let body = json!({
        "metadata": { "name": "a" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "User", "name": "u" }],
    });
    t.create(&path, &body).await?.code(201)?;
    let other = json!({ "roleRef": { "name": "other" } });
    t.merge(&format!("{path}/a"), &other).await?.refused(422, "Invalid")?;
    let bad = with(
        &body,
        json!({ "metadata": { "name": "b" }, "roleRef": { "kind": "Nonsense" } }),
    );
    t.create(&path, &bad).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn budget(t: &CaseRun) -> Result<()> {
    let path = t.api("policy/v1", "poddisruptionbudgets");
    let both = json!({ "metadata": { "name": "a" }, "spec": { "minAvailable": 1, "maxUnavailable": 1 } });
    t.create(&path, &both).await?.refused(422, "Invalid")?;
    let percent = json!({ "metadata": { "name": "a" }, "spec": { "minAvailable": "150%" } });
    t.create(&path, &percent).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn network_policy(t: &CaseRun) -> Result<()> {
    let path = t.api("networking.k8s.io/v1", "networkpolicies");
    let block = |cidr: &str| {
        json!({
            "metadata": { "name": "a" },
            "spec": { "podSelector": {}, "ingress": [{ "from": [{ "ipBlock": { "cidr": cidr } }] }] },
        })
    };
    t.create(&path, &block("nonsense")).await?.refused(422, "Invalid")?;
    t.create(&path, &block("192.0.2.0/24")).await?.code(201)?;
    Ok(())
}
