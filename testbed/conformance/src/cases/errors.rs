//! Errors: those that are a Status, and those that are not.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::widget;

pub(super) const CASES: &[Case] = &[
    Case::new("errors/not-found-names-the-object", |t| Box::pin(not_found(t))),
    Case::new("errors/an-unknown-path-is-plain-text", |t| Box::pin(unknown_path(t))),
    Case::new("errors/an-unknown-resource-of-a-known-group", |t| {
        Box::pin(unknown_resource(t))
    }),
    Case::new("errors/an-unknown-subresource", |t| Box::pin(unknown_subresource(t))),
    Case::new("errors/an-unknown-token-is-unauthorized", |t| Box::pin(unauthorized(t))),
    Case::new("errors/a-method-nobody-serves", |t| Box::pin(bad_method(t))),
    Case::new("errors/an-accept-nobody-serves", |t| Box::pin(not_acceptable(t))),
    Case::new("errors/the-shape-of-every-status", |t| Box::pin(shape(t))),
    Case::new("errors/pretty-printed-answers", |t| Box::pin(pretty(t))),
    Case::new("errors/health-and-version", |t| Box::pin(health(t))),
];

async fn not_found(t: &CaseRun) -> Result<()> {
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "widgets.conformance.example.com \"a\" not found",
        "reason": "NotFound", "code": 404,
        "details": { "name": "a", "group": "conformance.example.com", "kind": "widgets" },
    });
    t.get(&t.widget("a")).await?.refused(404, "NotFound")?.has("", want)?;
    t.get(&t.core("configmaps/a")).await?.refused(404, "NotFound")?;
    t.get("/api/v1/namespaces/nowhere").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn unknown_path(t: &CaseRun) -> Result<()> {
    for path in [
        "/apis/nobody.example.com/v1/things",
        "/apis/nobody.example.com/v1",
        "/nothing",
        "/apis/conformance.example.com/v9/widgets",
        "/apis/conformance.example.com/v1/namespaces/default/unheard",
    ] {
        let answer = t.get(path).await?.code(404)?;
        ensure!(
            answer.content_type.starts_with("text/plain"),
            "{path}: {}",
            answer.content_type
        );
        ensure!(answer.body == json!("404 page not found\n"), "{path}: {}", answer.body);
    }
    Ok(())
}

async fn unknown_resource(t: &CaseRun) -> Result<()> {
    t.get("/api/v1/unheard").await?.code(404)?;
    t.get("/api/v2").await?.code(404)?;
    t.get(&t.core("unheard/a")).await?.code(404)?;
    t.create(&t.core("unheard"), &json!({})).await?.code(404)?;
    t.get("/apis/apps/v1/unheard").await?.code(404)?;
    Ok(())
}

async fn unknown_subresource(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    t.get(&format!("{}/unheard", t.widget("a"))).await?.code(404)?;
    // Custom resources do not look at what follows a subresource.
    t.get(&format!("{}/status/more", t.widget("a"))).await?.code(200)?;
    t.get(&t.core("configmaps/a/unheard")).await?.code(404)?;
    Ok(())
}

async fn unauthorized(t: &CaseRun) -> Result<()> {
    let stranger = t.server.stranger();
    for path in ["/api/v1/namespaces", "/nothing"] {
        let refused = t.as_user(&stranger, "GET", path, &Value::Null).await?;
        refused.refused(401, "Unauthorized")?.has("/message", "Unauthorized")?;
    }
    Ok(())
}

async fn bad_method(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    for (method, path) in [
        ("OPTIONS", t.widgets()),
        ("BREW", t.widget("a")),
        ("PATCH", t.widgets()),
        ("BREW", t.core("configmaps")),
        ("PATCH", t.core("configmaps")),
        ("POST", "/version".to_owned()),
        ("DELETE", "/api".to_owned()),
    ] {
        let answer = t.send(method, &path, &[], "").await?;
        ensure!(answer.code >= 400, "{method} {path}: {}", answer.code);
    }
    Ok(())
}

async fn not_acceptable(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    for accept in [
        "text/html",
        "application/json;as=Nonsense;v=v1;g=meta.k8s.io",
        "image/*",
    ] {
        let headers = [("accept", accept)];
        let refused = t.send("GET", &t.widget("a"), &headers, "").await?;
        refused.refused(406, "NotAcceptable")?;
    }
    for accept in ["*/*", "application/*", "text/html,application/json", ""] {
        t.send("GET", &t.widget("a"), &[("accept", accept)], "")
            .await?
            .code(200)?;
    }
    Ok(())
}

async fn shape(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let answers = [
        t.get(&t.widget("missing")).await?,
        t.create(&t.widgets(), &widget("a", json!({}))).await?,
        t.create(&t.widgets(), &widget("b", json!({ "replicas": -1 }))).await?,
        t.get(&format!("{}?labelSelector=%3D", t.widgets())).await?,
    ];
    for answer in answers {
        let answer = answer.has("/kind", "Status")?.has("/apiVersion", "v1")?;
        let answer = answer.has("/status", "Failure")?.has("/metadata", json!({}))?;
        let code = answer.code;
        let answer = answer.has("/code", code)?;
        ensure!(answer.content_type == "application/json", "{}", answer.content_type);
    }
    Ok(())
}

async fn pretty(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let plain = t.get(&t.widget("a")).await?;
    let pretty = t.get(&format!("{}?pretty=true", t.widget("a"))).await?;
    ensure!(plain.body == pretty.body, "pretty is another answer");
    Ok(())
}

async fn health(t: &CaseRun) -> Result<()> {
    for path in ["/healthz", "/readyz", "/livez", "/healthz/ping"] {
        t.get(path).await?.code(200)?.has("", "ok")?;
    }
    let version = t.quiet("GET", "/version", &[], "").await?.code(200)?;
    for key in ["major", "minor", "gitVersion", "platform"] {
        ensure!(
            version.at(&format!("/{key}")).is_string(),
            "no {key} in {}",
            version.body
        );
    }
    t.note("version", json!([version.at("/major"), version.at("/minor")]))
        .await;
    Ok(())
}
