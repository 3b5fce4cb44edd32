//! Versions, optimistic concurrency and writes that change nothing.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::{APPLY, CaseRun, GROUP, MERGE, STRATEGIC};
use crate::verbs::{config_map, widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("versions/two-kinds-share-one-counter", |t| Box::pin(one_counter(t))),
    Case::new("versions/a-list-is-as-new-as-the-store", |t| Box::pin(list_version(t))),
    Case::new("versions/a-watcher-sees-them-grow", |t| Box::pin(monotone(t))),
    Case::new("versions/an-equal-put-is-not-written", |t| Box::pin(equal_put(t))),
    Case::new("versions/an-equal-merge-patch-is-not-written", |t| {
        Box::pin(equal_merge(t))
    }),
    Case::new("versions/an-equal-json-patch-is-not-written", |t| {
        Box::pin(equal_json_patch(t))
    }),
    Case::new("versions/an-equal-apply-is-not-written", |t| Box::pin(equal_apply(t))),
    Case::new("versions/an-equal-status-put-is-not-written", |t| {
        Box::pin(equal_status(t))
    }),
    Case::new("versions/a-put-with-an-old-version-conflicts", |t| {
        Box::pin(old_version(t))
    }),
    Case::new("versions/a-config-map-put-with-an-old-version", |t| {
        Box::pin(old_config_map(t))
    }),
    Case::new("versions/a-put-of-a-custom-resource-needs-one", |t| Box::pin(needed(t))),
    Case::new("versions/a-put-of-a-lease-needs-one", |t| Box::pin(needed_by_lease(t))),
    Case::new("versions/a-put-of-other-kinds-needs-none", |t| {
        Box::pin(unconditional(t))
    }),
    Case::new("versions/a-put-with-a-garbage-version", |t| Box::pin(garbage(t))),
    Case::new("versions/a-put-with-another-uid-conflicts", |t| Box::pin(other_uid(t))),
    Case::new("versions/a-put-with-another-name-is-refused", |t| {
        Box::pin(other_name(t))
    }),
    Case::new("versions/a-put-to-nothing-creates-nothing", |t| {
        Box::pin(put_missing(t))
    }),
    Case::new("versions/merge-patches-without-one-never-conflict", |t| {
        Box::pin(merges(t))
    })
    .uncompared(),
    Case::new("versions/applies-without-one-never-conflict", |t| Box::pin(applies(t))).uncompared(),
    Case::new("versions/a-merge-patch-with-an-old-one-conflicts", |t| {
        Box::pin(old_in_merge(t))
    }),
    Case::new("versions/a-json-patch-with-an-old-one-conflicts", |t| {
        Box::pin(old_in_json(t))
    }),
    Case::new("versions/a-failing-json-patch-is-invalid", |t| {
        Box::pin(failing_json_patch(t))
    }),
    Case::new("versions/a-strategic-patch-of-a-custom-resource", |t| {
        Box::pin(strategic(t))
    }),
];

async fn one_counter(t: &CaseRun) -> Result<()> {
    let mut last = 0;
    for round in 0..4 {
        let made = t.new_widget(&format!("w{round}"), json!({})).await?.version()?;
        let path = t.core("configmaps");
        let map = t
            .create(&path, &config_map(&format!("c{round}"), json!({})))
            .await?
            .code(201)?;
        ensure!(
            last < made && made < map.version()?,
            "{last}, {made}, {}",
            map.version()?
        );
        last = map.version()?;
    }
    Ok(())
}

async fn list_version(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?.version()?;
    let other = t
        .create(&t.core("configmaps"), &config_map("c", json!({})))
        .await?
        .version()?;
    let list = t.get(&t.widgets()).await?.code(200)?;
    ensure!(list.version()? >= other && other > made, "a list older than the store");
    let got = t.get(&t.widget("a")).await?;
    ensure!(got.version()? == made, "an object keeps the version of its own write");
    Ok(())
}

async fn monotone(t: &CaseRun) -> Result<()> {
    let mut watch = t.watch(&t.widgets()).await?;
    t.new_widget("a", json!({})).await?;
    for color in ["red", "green", "blue"] {
        t.merge(&t.widget("a"), &json!({ "spec": { "color": color } }))
            .await?
            .code(200)?;
    }
    let mut last = 0;
    for kind in ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED"] {
        let version = watch.expect(kind, "a").await?.version()?;
        ensure!(version > last, "{version} after {last}");
        last = version;
    }
    Ok(())
}

async fn equal_put(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({ "color": "red" })).await?;
    let mut watch = t
        .watch(&format!("{}?resourceVersion={}", t.widgets(), made.version()?))
        .await?;
    let put = t.put(&t.widget("a"), &made.body).await?.code(200)?;
    ensure!(put.version()? == made.version()?, "an equal PUT took a version");
    watch.silent().await
}

async fn equal_merge(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({ "color": "red" })).await?;
    let mut watch = t
        .watch(&format!("{}?resourceVersion={}", t.widgets(), made.version()?))
        .await?;
    let patch = json!({ "spec": { "color": "red" } });
    let patched = t.merge(&t.widget("a"), &patch).await?.code(200)?;
    ensure!(
        patched.version()? == made.version()?,
        "an equal merge patch took a version"
    );
    watch.silent().await
}

async fn equal_json_patch(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({ "color": "red" })).await?;
    let patch = json!([{ "op": "replace", "path": "/spec/color", "value": "red" }]);
    let patched = t.json_patch(&t.widget("a"), &patch).await?.code(200)?;
    ensure!(
        patched.version()? == made.version()?,
        "an equal JSON patch took a version"
    );
    Ok(())
}

async fn equal_apply(t: &CaseRun) -> Result<()> {
    let config = widget("a", json!({ "color": "red" }));
    let made = t.apply(&t.widget("a"), "one", &config).await?.code(201)?;
    let mut watch = t
        .watch(&format!("{}?resourceVersion={}", t.widgets(), made.version()?))
        .await?;
    // Times in managedFields have whole seconds; only then could they make a difference.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let again = t.apply(&t.widget("a"), "one", &config).await?.code(200)?;
    ensure!(again.version()? == made.version()?, "an equal apply took a version");
    watch.silent().await
}

async fn equal_status(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let path = format!("{}/status", t.widget("a"));
    let first = t
        .merge(&path, &json!({ "status": { "phase": "Up" } }))
        .await?
        .code(200)?;
    let again = t.put(&path, &first.body).await?.code(200)?;
    ensure!(
        again.version()? == first.version()?,
        "an equal status PUT took a version"
    );
    Ok(())
}

async fn old_version(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?;
    let stale = with(&made.body, json!({ "spec": { "color": "blue" } }));
    let message = format!(
        "Operation cannot be fulfilled on widgets.{GROUP} \"a\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
    let want = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Conflict", "code": 409,
        "details": { "name": "a", "group": GROUP, "kind": "widgets" },
    });
    t.put(&t.widget("a"), &stale)
        .await?
        .refused(409, "Conflict")?
        .has("", want)?;
    Ok(())
}

async fn old_config_map(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps/a");
    let made = t
        .create(&t.core("configmaps"), &config_map("a", json!({})))
        .await?
        .code(201)?;
    t.merge(&path, &json!({ "data": { "k": "1" } })).await?.code(200)?;
    let stale = with(&made.body, json!({ "data": { "k": "2" } }));
    t.put(&path, &stale)
        .await?
        .refused(409, "Conflict")?
        .has("/details/kind", "configmaps")?;
    Ok(())
}

async fn needed(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let without = widget("a", json!({ "color": "red" }));
    let refused = t.put(&t.widget("a"), &without).await?.refused(422, "Invalid")?;
    refused.says("metadata.resourceVersion: Invalid value: 0: must be specified for an update")?;
    Ok(())
}

async fn needed_by_lease(t: &CaseRun) -> Result<()> {
    let lease = json!({ "metadata": { "name": "a" }, "spec": { "holderIdentity": "me" } });
    let path = t.api("coordination.k8s.io/v1", "leases");
    t.create(&path, &lease).await?.code(201)?;
    let refused = t.put(&format!("{path}/a"), &lease).await?.refused(422, "Invalid")?;
    refused.says("must be specified for an update")?;
    Ok(())
}

async fn unconditional(t: &CaseRun) -> Result<()> {
    let changed = json!({ "metadata": { "labels": { "changed": "yes" } } });
    for (path, object) in super::samples::unconditional(t) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let made = t.create(&path, &object).await?.code(201)?;
        let mut body = with(&made.body, changed.clone());
        body["metadata"]["resourceVersion"] = Value::Null;
        let put = t.put(&format!("{path}/{name}"), &body).await?.code(200)?;
        ensure!(put.version()? > made.version()?, "{path}: not written");
    }
    Ok(())
}

async fn garbage(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    for version in ["abc", "-1", "1.5"] {
        let body = with(&made.body, json!({ "metadata": { "resourceVersion": version } }));
        t.put(&t.widget("a"), &body)
            .await?
            .refused(500, "")?
            .says("invalid syntax")?;
    }
    let future = with(&made.body, json!({ "metadata": { "resourceVersion": "999999999" } }));
    t.put(&t.widget("a"), &future).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn other_uid(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let uid = "11111111-2222-4333-8444-555555555555";
    let body = with(&made.body, json!({ "metadata": { "uid": uid } }));
    t.put(&t.widget("a"), &body).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn other_name(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let body = with(&made.body, json!({ "metadata": { "name": "b" } }));
    t.put(&t.widget("a"), &body).await?.refused(400, "BadRequest")?;
    let body = with(&made.body, json!({ "metadata": { "namespace": "elsewhere" } }));
    t.put(&t.widget("a"), &body).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn put_missing(t: &CaseRun) -> Result<()> {
    t.put(&t.widget("a"), &widget("a", json!({}))).await?;
    let with_version = with(
        &widget("a", json!({})),
        json!({ "metadata": { "resourceVersion": "1" } }),
    );
    t.put(&t.widget("a"), &with_version).await?.refused(404, "NotFound")?;
    t.get(&t.widget("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn merges(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let path = t.widget("a");
    let patches = (0..25).map(|n| {
        let body = json!({ "spec": { "settings": { format!("k{n}"): "v" } } }).to_string();
        t.quiet("PATCH", &path, &[("content-type", MERGE)], body)
    });
    for answer in try_join_all(patches).await? {
        answer.code(200)?;
    }
    all_settings(t, 25).await
}

async fn applies(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let paths: Vec<_> = (0..25)
        .map(|n| format!("{}?fieldManager=m{n}", t.widget("a")))
        .collect();
    let patches = paths.iter().enumerate().map(|(n, path)| {
        let body = widget("a", json!({ "settings": { format!("k{n}"): "v" } })).to_string();
        t.quiet("PATCH", path, &[("content-type", APPLY)], body)
    });
    for answer in try_join_all(patches).await? {
        answer.code(200)?;
    }
    all_settings(t, 25).await
}

async fn all_settings(t: &CaseRun, count: usize) -> Result<()> {
    let settings = t.get(&t.widget("a")).await?.at("/spec/settings");
    let found = settings.as_object().map_or(0, serde_json::Map::len);
    ensure!(found == count, "{found} of {count} writes are there");
    Ok(())
}

async fn old_in_merge(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?;
    let version = made.text("/metadata/resourceVersion");
    let patch = json!({ "metadata": { "resourceVersion": version }, "spec": { "color": "blue" } });
    t.merge(&t.widget("a"), &patch).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn old_in_json(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?;
    let version = made.text("/metadata/resourceVersion");
    let patch = json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": version },
        { "op": "replace", "path": "/spec/color", "value": "blue" },
    ]);
    t.json_patch(&t.widget("a"), &patch).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn failing_json_patch(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    let patches = [
        json!([{ "op": "test", "path": "/spec/color", "value": "blue" }]),
        json!([{ "op": "remove", "path": "/spec/min" }]),
        json!([{ "op": "add", "path": "/spec/no/way", "value": 1 }]),
    ];
    for patch in patches {
        let refused = t.json_patch(&t.widget("a"), &patch).await?.refused(422, "Invalid")?;
        refused.says("the server rejected our request due to an error in our request")?;
    }
    // Not what the RFC says, but what the server does: a replacement of nothing adds.
    let absent = json!([{ "op": "replace", "path": "/spec/min", "value": 1 }]);
    t.json_patch(&t.widget("a"), &absent)
        .await?
        .code(200)?
        .has("/spec/min", 1)?;
    Ok(())
}

async fn strategic(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let body = json!({ "spec": { "color": "red" } }).to_string();
    let headers = [("content-type", STRATEGIC)];
    let refused = t.send("PATCH", &t.widget("a"), &headers, body).await?;
    refused.refused(415, "UnsupportedMediaType")?;
    Ok(())
}
