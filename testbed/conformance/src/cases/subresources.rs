//! Subresources of the built-in kinds: scale, eviction, binding, tokens, ephemeral containers.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::with;

pub(super) const CASES: &[Case] = &[
    Case::new("subresources/scale-of-a-deployment", |t| Box::pin(scale(t))),
    Case::new("subresources/owners-through-scale", |t| Box::pin(scale_owners(t))),
    Case::new("subresources/scale-refuses", |t| Box::pin(scale_refuses(t))),
    Case::new("subresources/eviction-of-a-pending-pod", |t| Box::pin(eviction(t))),
    Case::new("subresources/eviction-asks-the-budget", |t| Box::pin(budget(t))),
    Case::new("subresources/eviction-of-an-unready-pod", |t| Box::pin(unready(t))),
    Case::new("subresources/binding-gives-a-node", |t| Box::pin(binding(t))),
    Case::new("subresources/ephemeral-containers-are-added", |t| {
        Box::pin(ephemeral(t))
    }),
    Case::new("subresources/token-requests-are-checked", |t| {
        Box::pin(token_refusals(t))
    }),
];

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "a", "image": "example.com/a" }] },
    })
}

async fn deployment(t: &CaseRun) -> Result<String> {
    let template = json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": { "containers": [{ "name": "a", "image": "example.com/a" }] },
    });
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "a" } }, "template": template },
    });
    let all = t.api("apps/v1", "deployments");
    t.create(&all, &body).await?.code(201)?;
    Ok(format!("{all}/a"))
}

async fn scale(t: &CaseRun) -> Result<()> {
    let path = format!("{}/scale", deployment(t).await?);
    let shown = t.get(&path).await?.code(200)?.has("/spec/replicas", 1)?;
    let shown = shown.has("/status/selector", "app=a")?;
    let more = with(&shown.body, json!({ "spec": { "replicas": 3 } }));
    t.put(&path, &more).await?.code(200)?.has("/spec/replicas", 3)?;
    t.put(&path, &more).await?.refused(409, "Conflict")?;
    let none = json!({ "spec": { "replicas": 0 } });
    t.merge(&path, &none).await?.code(200)?.lacks("/spec/replicas")?;
    let two = json!({ "spec": { "replicas": 2 } });
    t.strategic(&path, &two).await?.code(200)?;
    let steps = json!([{ "op": "replace", "path": "/spec/replicas", "value": 4 }]);
    t.json_patch(&path, &steps).await?.code(200)?;
    t.create(&path, &more).await?.code(405)?;
    Ok(())
}

async fn scale_owners(t: &CaseRun) -> Result<()> {
    let path = deployment(t).await?;
    let body = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": { "name": "a" }, "spec": { "replicas": 5 },
    });
    let scale = format!("{path}/scale");
    t.apply(&scale, "m", &body).await?.refused(409, "Conflict")?;
    t.force_apply(&scale, "m", &body).await?.code(200)?;
    t.get(&path).await?.code(200)?;
    t.merge(&scale, &json!({ "spec": { "replicas": 6 } }))
        .await?
        .code(200)?;
    t.get(&path).await?.has("/metadata/generation", 3)?;
    Ok(())
}

async fn scale_refuses(t: &CaseRun) -> Result<()> {
    let path = format!("{}/scale", deployment(t).await?);
    for body in [
        json!({ "spec": { "replicas": -1 } }),
        json!({ "metadata": { "uid": "x" } }),
        json!({ "metadata": { "labels": { "a b": "c" } } }),
    ] {
        ensure!(t.merge(&path, &body).await?.code >= 400, "{body}");
    }
    let missing = t.api("apps/v1", "deployments/none/scale");
    t.get(&missing).await?.refused(404, "NotFound")?;
    t.merge(&missing, &json!({})).await?.refused(404, "NotFound")?;
    Ok(())
}

fn evicted(name: &str) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } })
}

async fn eviction(t: &CaseRun) -> Result<()> {
    let held = with(&pod("a"), json!({ "metadata": { "finalizers": ["example.com/hold"] } }));
    t.create(&t.core("pods"), &held).await?.code(201)?;
    let path = t.core("pods/a/eviction");
    t.create(&path, &evicted("b")).await?.code(400)?;
    t.create(&format!("{path}?dryRun=All"), &evicted("a"))
        .await?
        .code(201)?;
    t.create(&path, &evicted("a")).await?.code(201)?;
    let target = "/status/conditions/0/type";
    t.get(&t.core("pods/a")).await?.has(target, "DisruptionTarget")?;
    t.create(&t.core("pods/none/eviction"), &evicted("none"))
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}

async fn budget(t: &CaseRun) -> Result<()> {
    t.create(&t.core("pods"), &pod("a")).await?.code(201)?;
    let ready = json!({ "status": {
        "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
    } });
    t.merge(&t.core("pods/a/status"), &ready).await?.code(200)?;
    let budgets = t.api("policy/v1", "poddisruptionbudgets");
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
    });
    t.create(&budgets, &budget).await?.code(201)?;
    let path = t.core("pods/a/eviction");
    let refused = t.create(&path, &evicted("a")).await?.refused(429, "TooManyRequests")?;
    refused.has("/details/causes/0/reason", "DisruptionBudget")?;
    let status = format!("{budgets}/b/status");
    let seen = json!({ "status": { "observedGeneration": 1 } });
    t.merge(&status, &seen).await?.code(200)?;
    t.create(&path, &evicted("a")).await?.refused(429, "TooManyRequests")?;
    let one = json!({ "status": { "disruptionsAllowed": 1 } });
    t.merge(&status, &one).await?.code(200)?;
    t.create(&path, &evicted("a")).await?.code(201)?;
    t.get(&format!("{budgets}/b"))
        .await?
        .has("/status/disruptionsAllowed", 0)?
        .has("/status/conditions/0/reason", "InsufficientPods")?;
    Ok(())
}

async fn unready(t: &CaseRun) -> Result<()> {
    t.create(&t.core("pods"), &pod("a")).await?.code(201)?;
    let running = json!({ "status": { "phase": "Running" } });
    t.merge(&t.core("pods/a/status"), &running).await?.code(200)?;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" },
        "spec": {
            "minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": { "matchLabels": { "app": "a" } },
        },
    });
    let budgets = t.api("policy/v1", "poddisruptionbudgets");
    t.create(&budgets, &budget).await?.code(201)?;
    let path = t.core("pods/a/eviction");
    let another = json!({ "deleteOptions": { "preconditions": { "uid": "another" } } });
    let another = with(&evicted("a"), another);
    // A conflict is blamed on the budget, unless the client named a version itself.
    t.create(&path, &another)
        .await?
        .refused(429, "TooManyRequests")?
        .has("/details/retryAfterSeconds", 10)?;
    let version = json!({ "deleteOptions": { "preconditions": { "resourceVersion": "1" } } });
    t.create(&path, &with(&another, version))
        .await?
        .refused(409, "Conflict")?;
    t.create(&path, &evicted("a")).await?.code(201)?;
    Ok(())
}

async fn binding(t: &CaseRun) -> Result<()> {
    t.create(&t.core("pods"), &pod("a")).await?.code(201)?;
    let path = t.core("pods/a/binding");
    let body = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "a" },
        "target": { "kind": "Node", "name": "n" },
    });
    let nowhere = with(&body, json!({ "target": { "name": "", "kind": "Pod" } }));
    t.create(&path, &nowhere).await?.code(500)?;
    t.create(&path, &body).await?.code(201)?;
    t.get(&t.core("pods/a")).await?.has("/spec/nodeName", "n")?;
    t.create(&path, &body).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn ephemeral(t: &CaseRun) -> Result<()> {
    t.create(&t.core("pods"), &pod("a")).await?.code(201)?;
    let path = t.core("pods/a/ephemeralcontainers");
    let debug = |name: &str| {
        let container = json!({ "name": name, "image": "example.com/debug" });
        json!({ "spec": { "ephemeralContainers": [container] } })
    };
    t.strategic(&path, &debug("d")).await?.code(200)?;
    t.strategic(&path, &debug("a")).await?.refused(422, "Invalid")?;
    let gone = json!({ "spec": { "ephemeralContainers": null } });
    t.merge(&path, &gone).await?.refused(422, "Invalid")?;
    t.get(&path).await?.has("/spec/ephemeralContainers/0/name", "d")?;
    Ok(())
}

async fn token_refusals(t: &CaseRun) -> Result<()> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" },
    });
    t.create(&t.core("serviceaccounts"), &account).await?.code(201)?;
    let path = t.core("serviceaccounts/robot/token");
    for spec in [
        json!({ "expirationSeconds": 5 }),
        json!({ "expirationSeconds": 5_000_000_000_i64 }),
        json!({ "boundObjectRef": { "kind": "ConfigMap", "apiVersion": "v1", "name": "x" } }),
        json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "x" } }),
    ] {
        let answer = t.create(&path, &json!({ "spec": spec })).await?;
        ensure!(answer.code >= 400, "{spec}");
    }
    let other = json!({ "metadata": { "name": "other" } });
    t.create(&path, &other).await?.refused(422, "Invalid")?;
    t.get(&path).await?.code(405)?;
    t.create(&t.core("serviceaccounts/none/token"), &json!({}))
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}
