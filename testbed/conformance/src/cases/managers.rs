//! Server-side apply: how managers are told apart and recorded, and objects that are not there.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::case::Case;
use crate::case_run::{APPLY, CaseRun};
use crate::verbs::{widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("managers/one-name-has-an-entry-per-subresource", |t| {
        Box::pin(per_subresource(t))
    }),
    Case::new("managers/the-default-manager-is-the-user-agent", |t| {
        Box::pin(user_agent(t))
    }),
    Case::new("managers/status-fields-are-owned-through-status", |t| {
        Box::pin(status_apply(t))
    }),
    Case::new("managers/status-conditions-are-owned-by-type", |t| {
        Box::pin(conditions(t))
    }),
    Case::new("managers/a-uid-of-a-missing-object-conflicts", |t| {
        Box::pin(uid_of_missing(t))
    }),
    Case::new("managers/a-version-of-a-missing-object-is-ignored", |t| {
        Box::pin(resurrection(t))
    }),
    Case::new("managers/an-old-version-conflicts", |t| Box::pin(old_version(t))),
    Case::new("managers/concurrent-creations-are-one", |t| Box::pin(concurrent(t))).uncompared(),
    Case::new("managers/cleared-managers-are-booked-before-first-apply", |t| {
        Box::pin(cleared(t))
    }),
    Case::new("managers/old-updaters-fold-into-one", |t| Box::pin(ancient(t))),
    Case::new("managers/identity-fields-are-never-owned", |t| {
        Box::pin(never_tracked(t))
    }),
    Case::new("managers/an-empty-configuration-owns-nothing", |t| Box::pin(empty(t))),
    Case::new("managers/a-dry-run-owns-nothing", |t| Box::pin(dry_run(t))),
];

async fn uid_of_missing(t: &CaseRun) -> Result<()> {
    let uid = json!({ "metadata": { "uid": "11111111-2222-4333-8444-555555555555" } });
    let config = with(&widget("a", json!({})), uid);
    let refused = t
        .apply(&t.widget("a"), "one", &config)
        .await?
        .refused(409, "Conflict")?;
    refused.says("uid mismatch")?;
    Ok(())
}

async fn resurrection(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let version = made.text("/metadata/resourceVersion");
    let config = with(
        &widget("a", json!({})),
        json!({ "metadata": { "resourceVersion": version } }),
    );
    t.apply(&t.widget("a"), "one", &config).await?.code(201)?;
    Ok(())
}

async fn old_version(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "min": 1 } }))
        .await?
        .code(200)?;
    let version = made.text("/metadata/resourceVersion");
    let config = with(
        &widget("a", json!({ "color": "red" })),
        json!({ "metadata": { "resourceVersion": version } }),
    );
    t.apply(&t.widget("a"), "one", &config)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn concurrent(t: &CaseRun) -> Result<()> {
    let paths: Vec<_> = (0..12)
        .map(|n| format!("{}?fieldManager=m{n}", t.widget("a")))
        .collect();
    let applies = paths.iter().enumerate().map(|(n, path)| {
        let body = widget("a", json!({ "settings": { format!("k{n}"): "v" } })).to_string();
        t.quiet("PATCH", path, &[("content-type", APPLY)], body)
    });
    let mut codes: Vec<_> = try_join_all(applies).await?.iter().map(|answer| answer.code).collect();
    codes.sort_unstable();
    ensure!(codes[..11] == [200; 11] && codes[11] == 201, "{codes:?}");
    let settings = t.get(&t.widget("a")).await?.at("/spec/settings");
    ensure!(settings.as_object().map(serde_json::Map::len) == Some(12), "{settings}");
    Ok(())
}

async fn cleared(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    let clear = json!({ "metadata": { "managedFields": [{}] } });
    let clear = t.merge(&t.widget("a"), &clear).await?.code(200)?;
    ensure!(clear.managers().is_empty(), "{:?}", clear.managers());
    let applied = t
        .apply(&t.widget("a"), "one", &widget("a", json!({ "min": 1 })))
        .await?
        .code(200)?;
    let mut managers = applied.managers();
    managers.sort();
    ensure!(managers == ["before-first-apply/Update/", "one/Apply/"], "{managers:?}");
    Ok(())
}

async fn ancient(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    for n in 0..12 {
        let path = format!("{}?fieldManager=m{n}", t.widget("a"));
        let patch = json!({ "spec": { "settings": { format!("k{n}"): "v" } } });
        t.quiet(
            "PATCH",
            &path,
            &[("content-type", crate::case_run::MERGE)],
            patch.to_string(),
        )
        .await?
        .code(200)?;
        // Entries fold oldest first, and their times have whole seconds.
        tokio::time::sleep(std::time::Duration::from_millis(1050)).await;
    }
    let got = t.get(&t.widget("a")).await?;
    let updates = got.managers().iter().filter(|name| name.contains("/Update/")).count();
    ensure!(updates == 10, "{:?}", got.managers());
    ensure!(
        got.managers().iter().any(|name| name.starts_with("ancient-changes/")),
        "not folded"
    );
    Ok(())
}

async fn never_tracked(t: &CaseRun) -> Result<()> {
    let config = with(
        &widget("a", json!({})),
        json!({ "metadata": { "namespace": t.namespace } }),
    );
    let made = t.apply(&t.widget("a"), "one", &config).await?.code(201)?;
    let owned = made.owned_by("one/Apply/");
    ensure!(
        owned.get("f:metadata").is_none() && owned.get("f:kind").is_none(),
        "{owned}"
    );
    Ok(())
}

async fn empty(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    let mut config = widget("a", Value::Null);
    config.as_object_mut().map(|object| object.remove("spec"));
    let applied = t.apply(&t.widget("a"), "one", &config).await?.code(200)?;
    ensure!(
        applied.managers() == ["conformance/Update/"],
        "{:?}",
        applied.managers()
    );
    Ok(())
}

async fn dry_run(t: &CaseRun) -> Result<()> {
    let made = t
        .apply(&t.widget("a"), "one", &widget("a", json!({ "color": "red" })))
        .await?;
    let path = format!("{}?dryRun=All&fieldManager=two", t.widget("a"));
    let body = widget("a", json!({ "min": 1 })).to_string();
    let dry = t
        .send("PATCH", &path, &[("content-type", APPLY)], body)
        .await?
        .code(200)?;
    dry.has("/spec/min", 1)?;
    let now = t.get(&t.widget("a")).await?;
    ensure!(
        now.managers() == made.managers() && now.version()? == made.version()?,
        "stored"
    );
    Ok(())
}

async fn per_subresource(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "color": "red" })))
        .await?
        .code(201)?;
    let status = with(&widget("a", json!({})), json!({ "status": { "phase": "Up" } }));
    let path = format!("{}/status", t.widget("a"));
    t.apply(&path, "one", &status).await?.code(200)?;
    let patch = json!({ "spec": { "min": 1 } });
    let all = t
        .merge(&format!("{}?fieldManager=one", t.widget("a")), &patch)
        .await?
        .code(200)?;
    let mut managers = all.managers();
    managers.sort();
    ensure!(
        managers == ["one/Apply/", "one/Apply/status", "one/Update/"],
        "{managers:?}"
    );
    Ok(())
}

async fn user_agent(t: &CaseRun) -> Result<()> {
    let body = widget("a", json!({})).to_string();
    let headers = [("user-agent", "some-agent/v1.2 (linux)")];
    let made = t.send("POST", &t.widgets(), &headers, body).await?.code(201)?;
    ensure!(made.managers() == ["some-agent/Update/"], "{:?}", made.managers());
    Ok(())
}

async fn status_apply(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "color": "red" })))
        .await?
        .code(201)?;
    let config = with(
        &widget("a", json!({ "color": "blue" })),
        json!({ "status": { "phase": "Up" } }),
    );
    let path = format!("{}/status", t.widget("a"));
    let applied = t.apply(&path, "two", &config).await?.code(200)?;
    let applied = applied.has("/spec/color", "red")?.has("/status/phase", "Up")?;
    let owned = applied.owned_by("two/Apply/status");
    ensure!(owned == json!({ "f:status": { "f:phase": {} } }), "{owned}");
    Ok(())
}

async fn conditions(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let path = format!("{}/status", t.widget("a"));
    let of = |kind: &str| {
        let conditions = json!([{ "type": kind, "status": "True" }]);
        with(
            &widget("a", json!({})),
            json!({ "status": { "conditions": conditions } }),
        )
    };
    t.apply(&path, "one", &of("Ready")).await?.code(200)?;
    let both = t.apply(&path, "two", &of("Healthy")).await?.code(200)?;
    ensure!(
        both.at("/status/conditions").as_array().map(Vec::len) == Some(2),
        "{}",
        both.body
    );
    let none = with(&widget("a", json!({})), json!({ "status": {} }));
    let left = t.apply(&path, "one", &none).await?.code(200)?;
    left.has("/status/conditions", json!([{ "type": "Healthy", "status": "True" }]))?;
    Ok(())
}
