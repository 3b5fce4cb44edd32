//! Server-side apply: requests that are refused before anything is merged.

use anyhow::Result;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::{APPLY, CaseRun, MERGE};
use crate::verbs::{widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("apply-refused/managed-fields-in-the-patch", |t| {
        Box::pin(managed_fields(t))
    }),
    Case::new("apply-refused/no-field-manager", |t| Box::pin(no_manager(t))),
    Case::new("apply-refused/a-bad-field-manager", |t| Box::pin(bad_manager(t))),
    Case::new("apply-refused/no-type", |t| Box::pin(no_type(t))),
    Case::new("apply-refused/another-version-than-the-path", |t| {
        Box::pin(other_version(t))
    }),
    Case::new("apply-refused/another-name-than-the-path", |t| Box::pin(other_name(t))),
    Case::new("apply-refused/force-on-another-patch", |t| Box::pin(force(t))),
    Case::new("apply-refused/a-field-of-the-wrong-type", |t| Box::pin(wrong_type(t))),
    Case::new("apply-refused/an-unknown-field", |t| Box::pin(unknown_field(t))),
    Case::new("apply-refused/yaml-that-is-none", |t| Box::pin(bad_yaml(t))),
    Case::new("apply-refused/yaml-is-taken", |t| Box::pin(yaml(t))),
    Case::new("apply-refused/duplicate-fields", |t| Box::pin(duplicates(t))),
];

async fn raw(t: &CaseRun, query: &str, body: &Value) -> Result<crate::answer::Answer> {
    let path = format!("{}?{query}", t.widget("a"));
    t.send("PATCH", &path, &[("content-type", APPLY)], body.to_string())
        .await
}

async fn managed_fields(t: &CaseRun) -> Result<()> {
    for fields in [json!([]), json!([{ "manager": "x", "operation": "Apply" }])] {
        let body = with(
            &widget("a", json!({})),
            json!({ "metadata": { "managedFields": fields } }),
        );
        let answer = raw(t, "fieldManager=one", &body).await?;
        t.note("code", answer.code).await;
    }
    t.new_widget("a", json!({})).await?;
    let body = with(
        &widget("a", json!({})),
        json!({ "metadata": { "managedFields": [{ "manager": "x", "operation": "Apply" }] } }),
    );
    let refused = raw(t, "fieldManager=one", &body).await?.refused(400, "BadRequest")?;
    refused.says("metadata.managedFields must be nil")?;
    Ok(())
}

async fn no_manager(t: &CaseRun) -> Result<()> {
    let refused = raw(t, "", &widget("a", json!({}))).await?.refused(422, "Invalid")?;
    refused.says("fieldManager: Required value: is required for apply patch")?;
    Ok(())
}

async fn bad_manager(t: &CaseRun) -> Result<()> {
    let long = format!("fieldManager={}", "x".repeat(129));
    raw(t, &long, &widget("a", json!({}))).await?.refused(422, "Invalid")?;
    raw(t, "fieldManager=a%01b", &widget("a", json!({})))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn no_type(t: &CaseRun) -> Result<()> {
    for key in ["apiVersion", "kind"] {
        let mut body = widget("a", json!({}));
        body.as_object_mut().map(|object| object.remove(key));
        raw(t, "fieldManager=one", &body).await?.refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn other_version(t: &CaseRun) -> Result<()> {
    let body = with(
        &widget("a", json!({})),
        json!({ "apiVersion": "conformance.example.com/v9" }),
    );
    raw(t, "fieldManager=one", &body).await?.refused(400, "BadRequest")?;
    let body = with(&widget("a", json!({})), json!({ "kind": "Gadget" }));
    raw(t, "fieldManager=one", &body).await?;
    Ok(())
}

async fn other_name(t: &CaseRun) -> Result<()> {
    let body = with(&widget("a", json!({})), json!({ "metadata": { "name": "b" } }));
    raw(t, "fieldManager=one", &body).await?.refused(400, "BadRequest")?;
    t.new_widget("a", json!({})).await?;
    raw(t, "fieldManager=one", &body).await?.refused(400, "BadRequest")?;
    let body = with(
        &widget("a", json!({})),
        json!({ "metadata": { "namespace": "elsewhere" } }),
    );
    raw(t, "fieldManager=one", &body).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn force(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let path = format!("{}?force=true", t.widget("a"));
    let body = json!({ "spec": { "color": "red" } }).to_string();
    let refused = t.send("PATCH", &path, &[("content-type", MERGE)], body).await?;
    refused
        .refused(422, "Invalid")?
        .says("force: Forbidden: may not be specified for non-apply")?;
    Ok(())
}

async fn wrong_type(t: &CaseRun) -> Result<()> {
    let body = widget("a", json!({ "replicas": "many" }));
    raw(t, "fieldManager=one", &body).await?;
    let body = widget("a", json!({ "ports": { "port": 80 } }));
    raw(t, "fieldManager=one", &body).await?;
    let body = widget("a", json!("text"));
    raw(t, "fieldManager=one", &body).await?;
    Ok(())
}

async fn unknown_field(t: &CaseRun) -> Result<()> {
    let body = widget("a", json!({ "unheard": 1 }));
    raw(t, "fieldManager=one", &body).await?;
    raw(t, "fieldManager=one&fieldValidation=Strict", &body).await?;
    raw(t, "fieldManager=one&fieldValidation=Ignore", &body).await?;
    Ok(())
}

async fn bad_yaml(t: &CaseRun) -> Result<()> {
    let path = format!("{}?fieldManager=one", t.widget("a"));
    for body in ["{", "- a\n- b\n", "a: [b\n", "text", ""] {
        let answer = t.send("PATCH", &path, &[("content-type", APPLY)], body).await?;
        anyhow::ensure!((400..500).contains(&answer.code), "{body:?}: {}", answer.code);
    }
    Ok(())
}

async fn yaml(t: &CaseRun) -> Result<()> {
    let path = format!("{}?fieldManager=one", t.widget("a"));
    let nameless = "apiVersion: conformance.example.com/v1\nkind: Widget\nspec: {}\n";
    let refused = t.send("PATCH", &path, &[("content-type", APPLY)], nameless).await?;
    refused.refused(400, "BadRequest")?.says("name must be provided")?;
    let body = "apiVersion: conformance.example.com/v1\nkind: Widget\nmetadata: {name: a}\n\
                spec:\n  color: red # a comment\n";
    let made = t
        .send("PATCH", &path, &[("content-type", APPLY)], body)
        .await?
        .code(201)?;
    made.has("/spec/color", "red")?.has("/metadata/name", "a")?;
    Ok(())
}

async fn duplicates(t: &CaseRun) -> Result<()> {
    let yaml = "\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: one\n  w: two\n  x: three\n";
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"one","x":"three"}}"#;
    let lines = json.replace(",", ",\n");
    for body in [yaml, json, &lines] {
        for validation in ["Strict", "Warn", "Ignore"] {
            let path = t.core("configmaps/a");
            let path = format!("{path}?fieldManager=me&dryRun=All&fieldValidation={validation}");
            t.send("PATCH", &path, &[("content-type", APPLY)], body).await?;
        }
    }
    Ok(())
}
