//! What is published about custom resources, from rich definitions to bare ones, and how it
//! follows them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{INDEX, V2, body, digests, outline};
use crate::case_run::CaseRun;
use crate::cases::crd::{definition, install, path};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The aggregator of the real server looks for changes once a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// A schema with everything one can say.
const RICH: &str = include_str!("../../fixtures/rich-schema.json");

/// Waits until a document is as `is_there` wants it.
async fn published(t: &CaseRun, path: &str, is_there: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = t.quiet("GET", path, &[], "").await?;
        if is_there(&answer.body) {
            return Ok(answer.body);
        }
        ensure!(tokio::time::Instant::now() < deadline, "{path} does not change");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The versions of a definition that are served, each with the name of its kind's schema.
fn models(crd: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group = text(&crd["spec"]["group"]);
    let reversed: Vec<&str> = group.split('.').rev().collect();
    let prefix = reversed.join(".");
    let kind = text(&crd["spec"]["names"]["kind"]);
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .map(|version| text(&version["name"]))
        .map(|version| {
            let model = format!("{prefix}.{version}.{kind}");
            (format!("apis/{group}/{version}"), model)
        })
        .collect()
}

/// Waits until definitions are in both editions and returns that of v2.
async fn wait(t: &CaseRun, crds: &[Value]) -> Result<Value> {
    let models: Vec<_> = crds.iter().flat_map(models).collect();
    for (path, model) in &models {
        let path = format!("{INDEX}/{path}");
        let in_v3 = |d: &Value| d["components"]["schemas"].get(model).is_some();
        published(t, &path, in_v3).await?;
    }
    let has = |d: &Value, model: &str| d["definitions"].get(model).is_some();
    published(t, V2, |d| models.iter().all(|(_, model)| has(d, model))).await
}

/// Notes everything that is published about definitions, in both editions.
async fn note(t: &CaseRun, crds: &[Value]) -> Result<()> {
    let swagger = wait(t, crds).await?;
    for (path, model) in crds.iter().flat_map(models) {
        let document = body(t, &format!("{INDEX}/{path}")).await?;
        let kind = document["components"]["schemas"][&model].clone();
        t.note("kind", kind).await;
        t.note(&path, outline(&document, |_| true)).await;
        let definition = swagger["definitions"][&model].clone();
        t.note("definition", definition).await;
        let ours = |name: &str| name.contains(&path) || name.starts_with(&model);
        t.note("paths", digests(&swagger["paths"], ours)).await;
        t.note("definitions", digests(&swagger["definitions"], ours)).await;
    }
    Ok(())
}

pub(super) async fn rich(t: &CaseRun) -> Result<()> {
    let mut crd = definition(t, "jewel", json!({}));
    crd["spec"]["scope"] = "Namespaced".into();
    let first = &mut crd["spec"]["versions"][0];
    first["selectableFields"] = json!([{ "jsonPath": ".spec.color" }]);
    first["subresources"] = json!({
        "status": {},
        "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" },
    });
    first["schema"]["openAPIV3Schema"] = serde_json::from_str(RICH)?;
    let second = json!({
        "name": "v1alpha1", "served": true, "storage": false,
        "schema": { "openAPIV3Schema": {
            "type": "object", "description": "An old one.",
            "properties": { "metadata": { "type": "object", "properties": {
                "name": { "type": "string", "maxLength": 5 },
            } } },
        } },
    });
    let third = json!({
        "name": "v0", "served": false, "storage": false,
        "schema": { "openAPIV3Schema": { "type": "object" } },
    });
    let versions = crd["spec"]["versions"].as_array_mut().context("versions")?;
    versions.extend([second, third]);
    install(t, &crd).await?;
    note(t, std::slice::from_ref(&crd)).await
}

/// At the root and below it, with properties and without.
pub(super) async fn open(t: &CaseRun) -> Result<()> {
    let keeps = "x-kubernetes-preserve-unknown-fields";
    let schemas = [
        ("empty", json!({ "type": "object", keeps: true })),
        (
            "apple",
            json!({
                "type": "object", keeps: true,
                "properties": { "spec": { "type": "object" } },
            }),
        ),
        (
            "glas",
            json!({
                "type": "object",
                "properties": { "spec": { "type": "object", keeps: true }, "status": { keeps: true } },
            }),
        ),
        ("bare", json!({ "type": "object" })),
    ];
    for (kind, schema) in schemas {
        let mut crd = definition(t, kind, json!({}));
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        install(t, &crd).await?;
        note(t, std::slice::from_ref(&crd)).await?;
    }
    Ok(())
}

/// The definitions as released; another case or suite may have installed them.
pub(super) async fn gateway_api(t: &CaseRun) -> Result<()> {
    let Ok(directory) = aplomb_controlplane::gateway_api_crds() else {
        // Without Go there is no real server either, and nothing to compare with.
        return Ok(());
    };
    let mut files: Vec<_> = std::fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    let mut crds = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file.path())?;
        for document in text.split("\n---") {
            let object: Value = serde_saphyr::from_str(document).unwrap_or_default();
            if object["kind"] == "CustomResourceDefinition" {
                crds.push(object);
            }
        }
    }
    ensure!(crds.len() >= 10, "{} definitions", crds.len());
    for crd in &crds {
        let answer = t.quiet("POST", CRDS, &[], crd.to_string()).await?;
        ensure!([201, 409].contains(&answer.code), "{}", answer.body);
    }
    note(t, &crds).await
}

/// A change of a definition, and its removal, are seen.
pub(super) async fn follows(t: &CaseRun) -> Result<()> {
    let mut crd = definition(t, "cloud", json!({ "a": { "type": "string" } }));
    install(t, &crd).await?;
    let group = crd["spec"]["group"].as_str().unwrap_or_default().to_owned();
    let reversed: Vec<&str> = group.split('.').rev().collect();
    let model = format!("{}.v1.Cloud", reversed.join("."));
    let document = format!("{INDEX}/apis/{group}/v1");
    let spec = |schema: &Value| schema["properties"]["spec"]["properties"].clone();
    let of_v3 = |d: &Value| spec(&d["components"]["schemas"][&model]);
    let of_v2 = |d: &Value| spec(&d["definitions"][&model]);
    let first = published(t, &document, |d| of_v3(d)["a"].is_object()).await?;
    let added = json!({ "a": { "type": "string" }, "b": { "type": "integer" } });
    let schema = json!({ "spec": { "versions": [{
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": added },
        } } },
    }] } });
    t.merge(&path(&crd), &schema).await?.code(200)?;
    crd["spec"]["versions"] = schema["spec"]["versions"].clone();
    let second = published(t, &document, |d| of_v3(d)["b"].is_object()).await?;
    ensure!(first != second, "{second}");
    published(t, V2, |d| of_v2(d)["b"].is_object()).await?;
    note(t, std::slice::from_ref(&crd)).await?;
    t.quiet("DELETE", &path(&crd), &[], "").await?.code(200)?;
    let listed = format!("apis/{group}/v1");
    published(t, INDEX, |d| d["paths"].get(&listed).is_none()).await?;
    published(t, V2, |d| d["definitions"].get(&model).is_none()).await?;
    t.quiet("GET", &document, &[], "").await?.code(404)?;
    Ok(())
}
