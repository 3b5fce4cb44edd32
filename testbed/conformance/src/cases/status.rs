//! Generation, the status subresource and scale.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{config_map, widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("status/generation-follows-the-spec", |t| Box::pin(generation(t))),
    Case::new("status/generation-ignores-metadata", |t| Box::pin(metadata_only(t))),
    Case::new("status/generation-moves-with-the-deletion", |t| Box::pin(deletion(t))),
    Case::new("status/generation-of-a-kind-without-the-subresource", |t| {
        Box::pin(no_subresource(t))
    }),
    Case::new("status/config-maps-secrets-and-leases-have-no-generation", |t| {
        Box::pin(none(t))
    }),
    Case::new("status/creation-drops-it", |t| Box::pin(dropped_at_creation(t))),
    Case::new("status/a-main-put-cannot-change-it", |t| Box::pin(main_put(t))),
    Case::new("status/a-main-merge-patch-cannot-change-it", |t| {
        Box::pin(main_merge(t))
    }),
    Case::new("status/a-main-json-patch-cannot-change-it", |t| Box::pin(main_json(t))),
    Case::new("status/a-main-apply-cannot-change-it", |t| Box::pin(main_apply(t))),
    Case::new("status/the-subresource-changes-nothing-else", |t| {
        Box::pin(nothing_else(t))
    }),
    Case::new("status/the-subresource-cannot-remove-a-finalizer", |t| {
        Box::pin(finalizer(t))
    }),
    Case::new("status/the-subresource-shares-the-version", |t| {
        Box::pin(shared_version(t))
    }),
    Case::new("status/the-subresource-needs-a-version-on-put", |t| {
        Box::pin(put_without_version(t))
    }),
    Case::new("status/the-subresource-moves-no-generation", |t| {
        Box::pin(no_generation(t))
    }),
    Case::new("status/the-subresource-cannot-create-or-delete", |t| {
        Box::pin(not_allowed(t))
    }),
    Case::new("status/the-subresource-can-be-read", |t| Box::pin(read(t))),
    Case::new("status/the-subresource-of-a-missing-object", |t| Box::pin(missing(t))),
    Case::new("status/the-subresource-is-validated", |t| Box::pin(validated(t))),
    Case::new("status/a-kind-without-it-has-no-such-path", |t| {
        Box::pin(no_such_path(t))
    }),
    Case::new("status/scale-maps-the-replicas", |t| Box::pin(scale(t))),
];

const GADGETS: &str = "/apis/conformance.example.com/v1/gadgets";

fn status_path(t: &CaseRun, name: &str) -> String {
    format!("{}/status", t.widget(name))
}

async fn generation(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?.has("/metadata/generation", 1)?;
    let red = t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } })).await?;
    let red = red.has("/metadata/generation", 2)?;
    let put = t
        .put(&t.widget("a"), &with(&red.body, json!({ "spec": { "color": "blue" } })))
        .await?;
    put.has("/metadata/generation", 3)?;
    let config = widget("a", json!({ "mode": "fast" }));
    t.force_apply(&t.widget("a"), "one", &config)
        .await?
        .has("/metadata/generation", 4)?;
    Ok(())
}

async fn metadata_only(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let edits = [
        json!({ "labels": { "a": "b" } }),
        json!({ "annotations": { "a": "b" } }),
        json!({ "finalizers": ["example.com/hold"] }),
        json!({ "generation": 9 }),
    ];
    for edit in edits {
        let patched = t.merge(&t.widget("a"), &json!({ "metadata": edit })).await?.code(200)?;
        patched.has("/metadata/generation", 1)?;
    }
    Ok(())
}

async fn deletion(t: &CaseRun) -> Result<()> {
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    t.create(&t.widgets(), &with(&widget("a", json!({})), held))
        .await?
        .code(201)?;
    t.delete(&t.widget("a"))
        .await?
        .code(200)?
        .has("/metadata/generation", 2)?;
    Ok(())
}

async fn no_subresource(t: &CaseRun) -> Result<()> {
    let name = t.namespace.clone();
    let path = format!("{GADGETS}/{name}");
    let gadget = json!({
        "apiVersion": "conformance.example.com/v1", "kind": "Gadget",
        "metadata": { "name": name }, "spec": {}, "status": { "phase": "Up" },
    });
    t.create(GADGETS, &gadget)
        .await?
        .code(201)?
        .has("/status/phase", "Up")?;
    let changed = t
        .merge(&path, &json!({ "status": { "phase": "Down" } }))
        .await?
        .code(200)?;
    changed.has("/metadata/generation", 2)?;
    let labelled = t
        .merge(&path, &json!({ "metadata": { "labels": { "a": "b" } } }))
        .await?;
    labelled.has("/metadata/generation", 2)?;
    t.delete(&path).await?.code(200)?;
    Ok(())
}

async fn none(t: &CaseRun) -> Result<()> {
    let secret = json!({ "metadata": { "name": "a" } });
    let lease = json!({ "metadata": { "name": "a" }, "spec": {} });
    let objects = [
        (t.core("configmaps"), config_map("a", json!({}))),
        (t.core("secrets"), secret),
        (t.api("coordination.k8s.io/v1", "leases"), lease),
    ];
    for (path, object) in objects {
        t.create(&path, &object)
            .await?
            .code(201)?
            .lacks("/metadata/generation")?;
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        t.merge(&format!("{path}/a"), &label)
            .await?
            .code(200)?
            .lacks("/metadata/generation")?;
    }
    Ok(())
}

async fn dropped_at_creation(t: &CaseRun) -> Result<()> {
    let body = with(&widget("a", json!({})), json!({ "status": { "phase": "Up" } }));
    t.create(&t.widgets(), &body).await?.code(201)?.lacks("/status")?;
    t.get(&t.widget("a")).await?.lacks("/status")?;
    Ok(())
}

async fn main_put(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let body = with(&made.body, json!({ "status": { "phase": "Up" } }));
    let put = t.put(&t.widget("a"), &body).await?.code(200)?.lacks("/status")?;
    ensure!(put.version()? == made.version()?, "a status-only PUT was written");
    Ok(())
}

async fn main_merge(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let patch = json!({ "status": { "phase": "Up" } });
    let patched = t.merge(&t.widget("a"), &patch).await?.code(200)?.lacks("/status")?;
    ensure!(patched.version()? == made.version()?, "a status-only patch was written");
    Ok(())
}

async fn main_json(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let patch = json!([{ "op": "add", "path": "/status", "value": { "phase": "Up" } }]);
    let patched = t
        .json_patch(&t.widget("a"), &patch)
        .await?
        .code(200)?
        .lacks("/status")?;
    ensure!(patched.version()? == made.version()?, "a status-only patch was written");
    Ok(())
}

async fn main_apply(t: &CaseRun) -> Result<()> {
    let config = with(&widget("a", json!({})), json!({ "status": { "phase": "Up" } }));
    let made = t
        .apply(&t.widget("a"), "one", &config)
        .await?
        .code(201)?
        .lacks("/status")?;
    ensure!(made.owned_by("one/Apply/").get("f:status").is_none(), "status is owned");
    Ok(())
}

async fn nothing_else(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({ "color": "red" })).await?;
    let body = with(
        &made.body,
        json!({
            "metadata": { "labels": { "a": "b" }, "annotations": { "a": "b" } },
            "spec": { "color": "blue" },
            "status": { "phase": "Up" },
        }),
    );
    let put = t.put(&status_path(t, "a"), &body).await?.code(200)?;
    put.has("/status/phase", "Up")?
        .has("/spec/color", "red")?
        .lacks("/metadata/labels")?;
    let patch = json!({ "spec": { "color": "green" }, "metadata": { "labels": { "c": "d" } } });
    let patched = t.merge(&status_path(t, "a"), &patch).await?.code(200)?;
    patched.has("/spec/color", "red")?.lacks("/metadata/labels")?;
    Ok(())
}

async fn finalizer(t: &CaseRun) -> Result<()> {
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    t.create(&t.widgets(), &with(&widget("a", json!({})), held))
        .await?
        .code(201)?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let patch = json!({ "metadata": { "finalizers": [] }, "status": { "phase": "Gone" } });
    let patched = t.merge(&status_path(t, "a"), &patch).await?.code(200)?;
    patched.has("/metadata/finalizers", json!(["example.com/hold"]))?;
    t.get(&t.widget("a")).await?.code(200)?;
    Ok(())
}

async fn shared_version(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?;
    let stale = with(&made.body, json!({ "status": { "phase": "Up" } }));
    t.put(&status_path(t, "a"), &stale).await?.refused(409, "Conflict")?;
    let fresh = t
        .merge(&status_path(t, "a"), &json!({ "status": { "phase": "Up" } }))
        .await?;
    let main = t.get(&t.widget("a")).await?;
    ensure!(fresh.version()? == main.version()?, "two versions of one object");
    Ok(())
}

async fn put_without_version(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let mut body = with(&made.body, json!({ "status": { "phase": "Up" } }));
    body["metadata"]["resourceVersion"] = Value::Null;
    t.put(&status_path(t, "a"), &body).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn no_generation(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let patched = t
        .merge(&status_path(t, "a"), &json!({ "status": { "phase": "Up" } }))
        .await?;
    patched.code(200)?.has("/metadata/generation", 1)?;
    Ok(())
}

async fn not_allowed(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let body = widget("a", json!({}));
    t.create(&status_path(t, "a"), &body)
        .await?
        .refused(405, "MethodNotAllowed")?;
    t.delete(&status_path(t, "a")).await?.refused(405, "MethodNotAllowed")?;
    Ok(())
}

async fn read(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.get(&status_path(t, "a")).await?.code(200)?.has("", made.body)?;
    Ok(())
}

async fn missing(t: &CaseRun) -> Result<()> {
    t.get(&status_path(t, "a")).await?.refused(404, "NotFound")?;
    let patch = json!({ "status": { "phase": "Up" } });
    t.merge(&status_path(t, "a"), &patch).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn validated(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let wrong = json!({ "status": { "replicas": "many" } });
    t.merge(&status_path(t, "a"), &wrong).await?.refused(422, "Invalid")?;
    let unknown = json!({ "status": { "unheard": 1, "phase": "Up" } });
    let pruned = t.merge(&status_path(t, "a"), &unknown).await?.code(200)?;
    pruned
        .lacks("/status/unheard")?
        .warns("unknown field \"status.unheard\"")?;
    Ok(())
}

async fn no_such_path(t: &CaseRun) -> Result<()> {
    t.get(&format!("{GADGETS}/any/status")).await?.code(404)?;
    t.get(&t.core("configmaps/any/status")).await?.code(404)?;
    Ok(())
}

async fn scale(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "replicas": 3 })).await?;
    let reported = json!({ "status": { "replicas": 2, "selector": "app=a" } });
    t.merge(&status_path(t, "a"), &reported).await?.code(200)?;
    let path = format!("{}/scale", t.widget("a"));
    let scale = t.get(&path).await?.code(200)?.has("/spec/replicas", 3)?;
    let scale = scale.has("/status", json!({ "replicas": 2, "selector": "app=a" }))?;
    let more = with(&scale.body, json!({ "spec": { "replicas": 5 } }));
    t.put(&path, &more).await?.code(200)?.has("/spec/replicas", 5)?;
    t.merge(&path, &json!({ "spec": { "replicas": 6 } })).await?.code(200)?;
    t.get(&t.widget("a"))
        .await?
        .has("/spec/replicas", 6)?
        .has("/metadata/generation", 3)?;
    Ok(())
}
