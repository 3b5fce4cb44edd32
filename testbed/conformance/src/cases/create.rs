//! Creation: names, namespaces, sizes, dry runs.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{config_map, widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("create/an-existing-name-already-exists", |t| Box::pin(exists(t))),
    Case::new("create/a-terminating-name-already-exists", |t| Box::pin(terminating(t))),
    Case::new("create/a-version-must-not-be-set", |t| Box::pin(version_set(t))),
    Case::new("create/another-namespace-is-refused", |t| Box::pin(other_namespace(t))),
    Case::new("create/a-missing-namespace-is-named", |t| {
        Box::pin(missing_namespace(t))
    }),
    Case::new("create/a-name-is-required", |t| Box::pin(no_name(t))),
    Case::new("create/a-bad-name-is-invalid", |t| Box::pin(bad_name(t))),
    Case::new("create/generate-name-appends-five-characters", |t| {
        Box::pin(generate_name(t))
    }),
    Case::new("create/server-fields-of-the-client-are-ignored", |t| {
        Box::pin(server_fields(t))
    }),
    Case::new("create/a-dry-run-stores-nothing", |t| Box::pin(dry_run(t))),
    Case::new("create/a-dry-run-validates-and-defaults", |t| {
        Box::pin(dry_run_validates(t))
    }),
    Case::new("create/a-bad-dry-run-value-is-refused", |t| Box::pin(bad_dry_run(t))),
    Case::new("create/a-body-over-three-megabytes", |t| Box::pin(too_large(t))),
    Case::new("create/an-object-too-large-for-the-store", |t| {
        Box::pin(too_large_to_store(t))
    }),
    Case::new("create/a-secret-over-one-megabyte", |t| Box::pin(large_secret(t))),
    Case::new("create/bad-labels-and-annotations", |t| Box::pin(bad_metadata(t))),
    Case::new("create/another-kind-than-the-path", |t| Box::pin(other_kind(t))),
    Case::new("create/on-a-named-path", |t| Box::pin(named_path(t))),
];

async fn exists(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let again = t.create(&t.widgets(), &widget("a", json!({}))).await?;
    again
        .refused(409, "AlreadyExists")?
        .says("widgets.conformance.example.com \"a\" already exists")?;
    let path = t.core("configmaps");
    t.create(&path, &config_map("a", json!({}))).await?.code(201)?;
    t.create(&path, &config_map("a", json!({})))
        .await?
        .refused(409, "AlreadyExists")?;
    Ok(())
}

async fn terminating(t: &CaseRun) -> Result<()> {
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    t.create(&t.widgets(), &with(&widget("a", json!({})), held))
        .await?
        .code(201)?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let again = t.create(&t.widgets(), &widget("a", json!({}))).await?;
    again.refused(409, "AlreadyExists")?.says("object is being deleted:")?;
    Ok(())
}

async fn version_set(t: &CaseRun) -> Result<()> {
    let body = with(
        &widget("a", json!({})),
        json!({ "metadata": { "resourceVersion": "1" } }),
    );
    let refused = t.create(&t.widgets(), &body).await?.refused(500, "")?;
    refused.says("resourceVersion should not be set on objects to be created")?;
    let body = with(
        &config_map("a", json!({})),
        json!({ "metadata": { "resourceVersion": "1" } }),
    );
    t.create(&t.core("configmaps"), &body).await?.refused(500, "")?;
    Ok(())
}

async fn other_namespace(t: &CaseRun) -> Result<()> {
    let body = with(
        &widget("a", json!({})),
        json!({ "metadata": { "namespace": "elsewhere" } }),
    );
    let refused = t.create(&t.widgets(), &body).await?.refused(400, "BadRequest")?;
    refused.says("the namespace of the provided object does not match")?;
    Ok(())
}

async fn missing_namespace(t: &CaseRun) -> Result<()> {
    let path = "/apis/conformance.example.com/v1/namespaces/nowhere/widgets";
    let refused = t
        .create(path, &widget("a", json!({})))
        .await?
        .refused(404, "NotFound")?;
    refused.says("namespaces \"nowhere\" not found")?;
    let path = "/api/v1/namespaces/nowhere/configmaps";
    t.create(path, &config_map("a", json!({})))
        .await?
        .refused(404, "NotFound")?;
    // Nothing is there, but asking is no error.
    t.get(path).await?.code(200)?.has("/items", json!([]))?;
    Ok(())
}

async fn no_name(t: &CaseRun) -> Result<()> {
    let mut body = widget("a", json!({}));
    body["metadata"] = json!({});
    let refused = t.create(&t.widgets(), &body).await?.refused(422, "Invalid")?;
    refused.says("name or generateName is required")?;
    t.create(&t.core("configmaps"), &json!({ "metadata": {} }))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn bad_name(t: &CaseRun) -> Result<()> {
    for name in ["Upper", "under_score", "-dash", "a/b", ".."] {
        t.create(&t.widgets(), &widget(name, json!({}))).await?.code(422)?;
        t.create(&t.core("configmaps"), &config_map(name, json!({})))
            .await?
            .code(422)?;
    }
    let long = "a".repeat(254);
    t.create(&t.widgets(), &widget(&long, json!({})))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn generate_name(t: &CaseRun) -> Result<()> {
    let mut body = widget("", json!({}));
    body["metadata"] = json!({ "generateName": "made-" });
    for round in 0..2 {
        let made = t.quiet("POST", &t.widgets(), &[], body.to_string()).await?.code(201)?;
        let name = made.text("/metadata/name");
        let suffix = name.strip_prefix("made-").unwrap_or_default().to_owned();
        ensure!(suffix.len() == 5, "{name}");
        let known = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
        ensure!(suffix.chars().all(known), "{name}");
        t.hide(&name, &format!("generated {round}")).await;
        t.record(&made).await;
    }
    Ok(())
}

async fn server_fields(t: &CaseRun) -> Result<()> {
    let theirs = json!({ "metadata": {
        "uid": "11111111-2222-4333-8444-555555555555",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 3,
        "selfLink": "/nowhere",
    } });
    let made = t
        .create(&t.widgets(), &with(&widget("a", json!({})), theirs))
        .await?
        .code(201)?;
    ensure!(
        made.uid() != "11111111-2222-4333-8444-555555555555",
        "the client chose the uid"
    );
    made.has("/metadata/generation", 1)?
        .lacks("/metadata/deletionTimestamp")?;
    Ok(())
}

async fn dry_run(t: &CaseRun) -> Result<()> {
    let path = format!("{}?dryRun=All", t.widgets());
    let made = t.create(&path, &widget("a", json!({}))).await?.code(201)?;
    ensure!(!made.uid().is_empty(), "a dry run shows a uid");
    made.lacks("/metadata/resourceVersion")?.has("/spec/replicas", 1)?;
    t.get(&t.widget("a")).await?.refused(404, "NotFound")?;

    let real = t.new_widget("a", json!({})).await?;
    let dry = format!("{}?dryRun=All", t.widget("a"));
    t.merge(&dry, &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?
        .has("/spec/color", "red")?;
    t.put(&dry, &with(&real.body, json!({ "spec": { "color": "blue" } })))
        .await?
        .code(200)?;
    t.delete(&dry).await?.code(200)?;
    let still = t.get(&t.widget("a")).await?.code(200)?.lacks("/spec/color")?;
    ensure!(still.version()? == real.version()?, "a dry run took a version");
    Ok(())
}

async fn dry_run_validates(t: &CaseRun) -> Result<()> {
    let path = format!("{}?dryRun=All", t.widgets());
    t.create(&path, &widget("a", json!({ "replicas": 101 })))
        .await?
        .refused(422, "Invalid")?;
    t.create(&path, &widget("a", json!({ "nested": { "must": "x" } })))
        .await?
        .code(201)?
        .has("/spec/nested/level", 3)?;
    Ok(())
}

async fn bad_dry_run(t: &CaseRun) -> Result<()> {
    let path = format!("{}?dryRun=Some", t.widgets());
    t.create(&path, &widget("a", json!({})))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn too_large(t: &CaseRun) -> Result<()> {
    let body = config_map("a", json!({ "k": "x".repeat(4 << 20) }));
    let refused = t.create(&t.core("configmaps"), &body).await?;
    refused.refused(413, "RequestEntityTooLarge")?;
    Ok(())
}

async fn too_large_to_store(t: &CaseRun) -> Result<()> {
    let body = widget("a", json!({ "settings": { "k": "x".repeat(1_700_000) } }));
    let refused = t.create(&t.widgets(), &body).await?.refused(500, "")?;
    refused.says("etcdserver: request is too large")?;
    Ok(())
}

async fn large_secret(t: &CaseRun) -> Result<()> {
    let body = json!({ "metadata": { "name": "a" }, "stringData": { "k": "x".repeat(1_100_000) } });
    let refused = t.create(&t.core("secrets"), &body).await?.refused(422, "Invalid")?;
    refused.says("Too long")?;
    Ok(())
}

async fn bad_metadata(t: &CaseRun) -> Result<()> {
    let wrong = [
        json!({ "labels": { "a b": "c" } }),
        json!({ "labels": { "a": "b c" } }),
        json!({ "labels": { "example.com/x/y": "z" } }),
        json!({ "annotations": { "a b": "c" } }),
        json!({ "annotations": { "a": "x".repeat(300_000) } }),
    ];
    for metadata in wrong {
        let body = with(&widget("a", json!({})), json!({ "metadata": metadata }));
        t.create(&t.widgets(), &body).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn other_kind(t: &CaseRun) -> Result<()> {
    let body = with(&widget("a", json!({})), json!({ "kind": "Gadget" }));
    t.create(&t.widgets(), &body)
        .await?
        .refused(422, "Invalid")?
        .says("kind: Invalid value")?;
    let body = with(
        &widget("a", json!({})),
        json!({ "apiVersion": "conformance.example.com/v2" }),
    );
    t.create(&t.widgets(), &body).await?.refused(400, "BadRequest")?;
    let mut body = widget("a", json!({}));
    body["kind"] = Value::Null;
    t.create(&t.widgets(), &body).await?.refused(400, "BadRequest")?;
    t.create(&t.core("configmaps"), &json!({ "kind": "Secret", "apiVersion": "v1" }))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn named_path(t: &CaseRun) -> Result<()> {
    // Custom resources allow it, built-in kinds do not.
    t.create(&t.widget("a"), &widget("a", json!({}))).await?.code(201)?;
    let refused = t.create(&t.core("configmaps/a"), &config_map("a", json!({}))).await?;
    refused.refused(405, "MethodNotAllowed")?;
    t.put(&t.widgets(), &widget("a", json!({})))
        .await?
        .refused(400, "BadRequest")?;
    let refused = t.put(&t.core("configmaps"), &config_map("a", json!({}))).await?;
    refused.refused(405, "MethodNotAllowed")?;
    Ok(())
}
