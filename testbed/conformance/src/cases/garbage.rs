//! The garbage collector and the end of namespaces: what follows a deletion.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{config_map, with};

pub(super) const CASES: &[Case] = &[
    Case::new("garbage/a-child-goes-with-its-owner", |t| Box::pin(child(t))).with_controllers(),
    Case::new("garbage/an-owner-that-never-was", |t| Box::pin(never_was(t))).with_controllers(),
    Case::new("garbage/an-owner-with-another-uid", |t| Box::pin(other_uid(t))).with_controllers(),
    Case::new("garbage/an-owner-in-another-namespace", |t| Box::pin(elsewhere(t))).with_controllers(),
    Case::new("garbage/one-of-two-owners", |t| Box::pin(one_of_two(t))).with_controllers(),
    Case::new("garbage/orphans-stay", |t| Box::pin(orphans(t))).with_controllers(),
    Case::new("garbage/foreground-waits-for-children", |t| Box::pin(foreground(t))).with_controllers(),
    Case::new("garbage/grandchildren-go-too", |t| Box::pin(grandchildren(t))).with_controllers(),
    Case::new("garbage/custom-resources-own-and-are-owned", |t| Box::pin(custom(t))).with_controllers(),
    Case::new("garbage/a-namespace-is-emptied", |t| Box::pin(namespace(t))).with_controllers(),
    Case::new("garbage/a-namespace-waits-for-finalizers", |t| {
        Box::pin(held_namespace(t))
    })
    .with_controllers(),
    Case::new("garbage/a-terminating-namespace-takes-nothing-new", |t| {
        Box::pin(terminating(t))
    })
    .with_controllers(),
];

fn owned_by(owner: &Answer, block: bool) -> Value {
    json!({ "metadata": { "ownerReferences": [reference(owner, block)] } })
}

fn reference(owner: &Answer, block: bool) -> Value {
    json!({
        "apiVersion": owner.at("/apiVersion"), "kind": owner.at("/kind"),
        "name": owner.at("/metadata/name"), "uid": owner.uid(), "blockOwnerDeletion": block,
    })
}

async fn made(t: &CaseRun, name: &str, metadata: Value) -> Result<Answer> {
    let body = with(&config_map(name, json!({})), metadata);
    t.create(&t.core("configmaps"), &body).await?.code(201)
}

/// Waits until `path` answers 404. The real collector looks for new kinds every 30 seconds.
async fn gone(t: &CaseRun, path: &str) -> Result<()> {
    for _ in 0..1800 {
        if t.quiet("GET", path, &[], "").await?.code == 404 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{path} is still there")
}

/// Deletes an object with no owner and waits for another's end: by then the collector has seen
/// everything before it.
async fn stays(t: &CaseRun, path: &str) -> Result<Answer> {
    let owner = made(t, "marker", json!({})).await?;
    made(t, "marked", owned_by(&owner, false)).await?;
    t.delete(&t.core("configmaps/marker")).await?.code(200)?;
    gone(t, &t.core("configmaps/marked")).await?;
    t.get(path).await?.code(200)
}

async fn child(t: &CaseRun) -> Result<()> {
    let owner = made(t, "owner", json!({})).await?;
    made(t, "child", owned_by(&owner, false)).await?;
    t.delete(&t.core("configmaps/owner")).await?.code(200)?;
    gone(t, &t.core("configmaps/child")).await
}

async fn never_was(t: &CaseRun) -> Result<()> {
    let uid = "11111111-2222-4333-8444-555555555555";
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": uid });
    made(t, "child", json!({ "metadata": { "ownerReferences": [owner] } })).await?;
    gone(t, &t.core("configmaps/child")).await
}

async fn other_uid(t: &CaseRun) -> Result<()> {
    made(t, "owner", json!({})).await?;
    let uid = "11111111-2222-4333-8444-555555555555";
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid });
    made(t, "child", json!({ "metadata": { "ownerReferences": [owner] } })).await?;
    gone(t, &t.core("configmaps/child")).await?;
    t.get(&t.core("configmaps/owner")).await?.code(200)?;
    Ok(())
}

async fn elsewhere(t: &CaseRun) -> Result<()> {
    let path = "/api/v1/namespaces/default/configmaps";
    let owner = config_map(&t.namespace, json!({}));
    let owner = t.create(path, &owner).await?.code(201)?;
    made(t, "child", owned_by(&owner, false)).await?;
    gone(t, &t.core("configmaps/child")).await?;
    t.delete(&format!("{path}/{}", t.namespace)).await?.code(200)?;
    Ok(())
}

async fn one_of_two(t: &CaseRun) -> Result<()> {
    let one = made(t, "one", json!({})).await?;
    let two = made(t, "two", json!({})).await?;
    let owners = json!([reference(&one, false), reference(&two, false)]);
    made(t, "child", json!({ "metadata": { "ownerReferences": owners } })).await?;
    t.delete(&t.core("configmaps/one")).await?.code(200)?;
    for _ in 0..1800 {
        let child = t.quiet("GET", &t.core("configmaps/child"), &[], "").await?.code(200)?;
        let left = child.at("/metadata/ownerReferences");
        if left.as_array().is_some_and(|left| left.len() == 1) {
            ensure!(left[0]["uid"] == json!(two.uid()), "{left}");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the reference to the absent owner is still there")
}

async fn orphans(t: &CaseRun) -> Result<()> {
    let owner = made(t, "owner", json!({})).await?;
    made(t, "child", owned_by(&owner, false)).await?;
    let orphan = json!({ "propagationPolicy": "Orphan" });
    t.delete_with(&t.core("configmaps/owner"), &orphan).await?.code(200)?;
    gone(t, &t.core("configmaps/owner")).await?;
    let child = t.get(&t.core("configmaps/child")).await?.code(200)?;
    child.lacks("/metadata/ownerReferences")?;
    Ok(())
}

async fn foreground(t: &CaseRun) -> Result<()> {
    let owner = made(t, "owner", json!({})).await?;
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    made(t, "child", with(&owned_by(&owner, true), hold)).await?;
    let options = json!({ "propagationPolicy": "Foreground" });
    t.delete_with(&t.core("configmaps/owner"), &options).await?.code(200)?;
    for _ in 0..1800 {
        let child = t.quiet("GET", &t.core("configmaps/child"), &[], "").await?.code(200)?;
        if !child.at("/metadata/deletionTimestamp").is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stays(t, &t.core("configmaps/owner")).await?;
    let release = json!({ "metadata": { "finalizers": null } });
    t.quiet(
        "PATCH",
        &t.core("configmaps/child"),
        &[("content-type", crate::case_run::MERGE)],
        release.to_string(),
    )
    .await?
    .code(200)?;
    gone(t, &t.core("configmaps/owner")).await
}

async fn grandchildren(t: &CaseRun) -> Result<()> {
    let owner = made(t, "owner", json!({})).await?;
    let child = made(t, "child", owned_by(&owner, false)).await?;
    made(t, "grandchild", owned_by(&child, false)).await?;
    t.delete(&t.core("configmaps/owner")).await?.code(200)?;
    gone(t, &t.core("configmaps/grandchild")).await
}

async fn custom(t: &CaseRun) -> Result<()> {
    let owner = t.new_widget("owner", json!({})).await?;
    made(t, "child", owned_by(&owner, false)).await?;
    let map = made(t, "map", json!({})).await?;
    let body = with(&crate::verbs::widget("child", json!({})), owned_by(&map, false));
    t.create(&t.widgets(), &body).await?.code(201)?;
    t.delete(&t.widget("owner")).await?.code(200)?;
    gone(t, &t.core("configmaps/child")).await?;
    t.delete(&t.core("configmaps/map")).await?.code(200)?;
    gone(t, &t.widget("child")).await
}

async fn new_namespace(t: &CaseRun) -> Result<String> {
    let name = format!("{}-x", &t.namespace[..t.namespace.len().min(50)]);
    t.create("/api/v1/namespaces", &json!({ "metadata": { "name": name } }))
        .await?
        .code(201)?;
    Ok(format!("/api/v1/namespaces/{name}"))
}

async fn namespace(t: &CaseRun) -> Result<()> {
    let path = new_namespace(t).await?;
    t.create(&format!("{path}/configmaps"), &config_map("a", json!({})))
        .await?
        .code(201)?;
    let widgets = path.replace("/api/v1", "/apis/conformance.example.com/v1") + "/widgets";
    t.create(&widgets, &crate::verbs::widget("a", json!({})))
        .await?
        .code(201)?;
    let marked = t.quiet("DELETE", &path, &[], "").await?.code(200)?;
    marked.has("/status/phase", "Terminating")?;
    gone(t, &path).await?;
    t.get(&format!("{path}/configmaps")).await?.has("/items", json!([]))?;
    t.get(&widgets).await?.has("/items", json!([]))?;
    Ok(())
}

async fn held_namespace(t: &CaseRun) -> Result<()> {
    let path = new_namespace(t).await?;
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let body = with(&config_map("a", json!({})), hold);
    t.create(&format!("{path}/configmaps"), &body).await?.code(201)?;
    t.quiet("DELETE", &path, &[], "").await?.code(200)?;
    let one = format!("{path}/configmaps/a");
    for _ in 0..1800 {
        let held = t.quiet("GET", &one, &[], "").await?.code(200)?;
        if !held.at("/metadata/deletionTimestamp").is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let namespace = t.quiet("GET", &path, &[], "").await?.code(200)?;
    namespace.has("/status/phase", "Terminating")?;
    let release = json!({ "metadata": { "finalizers": null } }).to_string();
    t.quiet("PATCH", &one, &[("content-type", crate::case_run::MERGE)], release)
        .await?
        .code(200)?;
    gone(t, &path).await
}

async fn terminating(t: &CaseRun) -> Result<()> {
    let path = new_namespace(t).await?;
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let body = with(&config_map("a", json!({})), hold);
    t.create(&format!("{path}/configmaps"), &body).await?.code(201)?;
    t.quiet("DELETE", &path, &[], "").await?.code(200)?;
    let refused = t
        .create(&format!("{path}/configmaps"), &config_map("b", json!({})))
        .await?;
    let refused = refused.refused(403, "Forbidden")?;
    ensure!(
        refused.causes()[0].0 == "NamespaceTerminating",
        "{:?}",
        refused.causes()
    );
    let release = json!({ "metadata": { "finalizers": null } }).to_string();
    let one = format!("{path}/configmaps/a");
    t.quiet("PATCH", &one, &[("content-type", crate::case_run::MERGE)], release)
        .await?
        .code(200)?;
    gone(t, &path).await
}
