//! Strategic merge patches: lists merged by their keys, in the order Go's code gives them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::case::Case;
use crate::case_run::CaseRun;

pub(super) const CASES: &[Case] = &[
    Case::new("strategic/lists-of-maps-are-merged-by-key", |t| Box::pin(by_key(t))),
    Case::new("strategic/an-order-can-be-given", |t| Box::pin(order(t))),
    Case::new("strategic/directives-delete-and-replace", |t| Box::pin(directives(t))),
    Case::new("strategic/retained-keys-are-all-that-stays", |t| Box::pin(retained(t))),
    Case::new("strategic/malformed-patches-are-refused", |t| Box::pin(malformed(t))),
    Case::new("strategic/unknown-fields-by-field-validation", |t| Box::pin(unknown(t))),
    Case::new("strategic/status-conditions-are-merged-by-type", |t| {
        Box::pin(conditions(t))
    }),
    Case::new("strategic/custom-resources-take-none", |t| Box::pin(custom(t))),
];

async fn patch(t: &CaseRun, path: &str, body: &Value) -> Result<Answer> {
    t.strategic(path, body).await
}

async fn service(t: &CaseRun) -> Result<String> {
    let body = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" },
        "spec": { "clusterIP": "None", "selector": { "app": "a", "tier": "b" }, "ports": [
            { "name": "http", "port": 80 }, { "name": "dns", "port": 53, "protocol": "UDP" },
        ] },
    });
    t.create(&t.core("services"), &body).await?.code(201)?;
    Ok(t.core("services/a"))
}

async fn by_key(t: &CaseRun) -> Result<()> {
    let path = service(t).await?;
    let ports = json!([{ "name": "tls", "port": 443 }, { "port": 80, "targetPort": 8080 }]);
    let merged = patch(t, &path, &json!({ "spec": { "ports": ports } })).await?;
    merged
        .code(200)?
        .has("/spec/ports/0/name", "tls")?
        .has("/spec/ports/1/targetPort", 8080)?
        .has("/spec/ports/2/port", 53)?;
    Ok(())
}

async fn order(t: &CaseRun) -> Result<()> {
    let path = service(t).await?;
    let order = json!([{ "port": 53 }, { "port": 80 }]);
    let body = json!({ "spec": { "$setElementOrder/ports": order } });
    let ordered = patch(t, &path, &body).await?.code(200)?;
    ordered.has("/spec/ports/0/port", 53)?;
    let finalizers = json!(["example.com/a", "example.com/b"]);
    let body = json!({ "metadata": { "finalizers": finalizers } });
    patch(t, &path, &body).await?.code(200)?;
    let body = json!({ "metadata": {
        "$deleteFromPrimitiveList/finalizers": ["example.com/a"],
        "$setElementOrder/finalizers": ["example.com/b"],
    } });
    let left = patch(t, &path, &body).await?.code(200)?;
    left.has("/metadata/finalizers", json!(["example.com/b"]))?;
    Ok(())
}

async fn directives(t: &CaseRun) -> Result<()> {
    let path = service(t).await?;
    let body = json!({ "spec": {
        "ports": [{ "port": 53, "$patch": "delete" }],
        "selector": { "$patch": "replace", "app": "c" },
    } });
    let patched = patch(t, &path, &body).await?.code(200)?;
    let patched = patched.has("/spec/selector", json!({ "app": "c" }))?;
    patched.lacks("/spec/ports/1")?;
    Ok(())
}

async fn retained(t: &CaseRun) -> Result<()> {
    let template = json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": { "containers": [{ "name": "a", "image": "example.com/a" }] },
    });
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
        "spec": { "replicas": 0, "selector": { "matchLabels": { "app": "a" } }, "template": template },
    });
    let all = t.api("apps/v1", "deployments");
    t.create(&all, &body).await?.code(201)?;
    let path = format!("{all}/a");
    let body = json!({ "spec": { "strategy": { "type": "Recreate" } } });
    patch(t, &path, &body).await?.refused(422, "Invalid")?;
    let body = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } });
    let kept = patch(t, &path, &body).await?.code(200)?;
    kept.has("/spec/strategy", json!({ "type": "Recreate" }))?;
    let body = json!({ "spec": { "strategy": { "$retainKeys": ["x"], "type": "Recreate" } } });
    patch(t, &path, &body).await?.code(400)?;
    Ok(())
}

async fn malformed(t: &CaseRun) -> Result<()> {
    let path = service(t).await?;
    for body in [
        json!({ "spec": { "ports": [{ "name": "x" }] } }),
        json!({ "spec": { "ports": ["x"] } }),
        json!({ "spec": { "$patch": "x" } }),
        json!({ "spec": { "$setElementOrder/nothing": [] } }),
        json!({ "spec": { "$setElementOrder/ports": [{ "port": 1 }], "ports": [{ "port": 80 }] } }),
        json!({ "metadata": { "labels": { "a": { "b": "c" } } } }),
        json!([]),
    ] {
        let answer = patch(t, &path, &body).await?;
        anyhow::ensure!(answer.code >= 400, "{body}");
    }
    Ok(())
}

async fn unknown(t: &CaseRun) -> Result<()> {
    let path = service(t).await?;
    let body = json!({ "spec": { "bogus": { "a": 1 }, "ports": [{ "port": 80, "b": 1 }] } });
    let warned = patch(t, &path, &body).await?.code(200)?;
    warned.warns("unknown field \"spec.bogus\"")?;
    let strict = format!("{path}?fieldValidation=Strict");
    patch(t, &strict, &body).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn conditions(t: &CaseRun) -> Result<()> {
    let path = format!("{}/status", service(t).await?);
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        })
    };
    for (kind, status) in [("A", "True"), ("B", "True"), ("A", "False")] {
        let body = json!({ "status": { "conditions": [condition(kind, status)] } });
        patch(t, &path, &body).await?.code(200)?;
    }
    let merged = t.get(&path).await?.has("/status/conditions/1/type", "A")?;
    merged.has("/status/conditions/1/status", "False")?;
    Ok(())
}

async fn custom(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "replicas": 3 })).await?;
    let body = json!({ "spec": { "replicas": 1 } });
    patch(t, &t.widget("a"), &body).await?.code(415)?;
    Ok(())
}
