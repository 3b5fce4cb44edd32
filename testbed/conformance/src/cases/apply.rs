//! Server-side apply: who owns what, and what happens when they part.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("apply/creates-what-is-absent", |t| Box::pin(creates(t))),
    Case::new("apply/status-of-a-missing-object-is-not-found", |t| {
        Box::pin(status_of_missing(t))
    }),
    Case::new("apply/equal-values-are-shared", |t| Box::pin(shared(t))),
    Case::new("apply/the-last-owner-takes-the-field-along", |t| {
        Box::pin(last_owner(t))
    }),
    Case::new("apply/a-dropped-field-is-defaulted-again", |t| {
        Box::pin(defaulted_again(t))
    }),
    Case::new("apply/another-value-conflicts", |t| Box::pin(conflict(t))),
    Case::new("apply/several-conflicts-are-all-named", |t| Box::pin(several(t))),
    Case::new("apply/a-conflict-with-an-updater-says-so", |t| Box::pin(updater(t))),
    Case::new("apply/force-takes-ownership", |t| Box::pin(force(t))),
    Case::new("apply/force-leaves-the-rest-to-the-loser", |t| Box::pin(force_part(t))),
    Case::new("apply/an-update-takes-what-it-changes", |t| Box::pin(update_takes(t))),
    Case::new("apply/an-update-takes-nothing-it-leaves", |t| {
        Box::pin(update_leaves(t))
    }),
];

async fn creates(t: &CaseRun) -> Result<()> {
    let config = widget("a", json!({ "color": "red" }));
    let made = t.apply(&t.widget("a"), "one", &config).await?.code(201)?;
    ensure!(made.managers() == ["one/Apply/"], "{:?}", made.managers());
    t.apply(&t.widget("a"), "one", &config).await?.code(200)?;
    Ok(())
}

async fn status_of_missing(t: &CaseRun) -> Result<()> {
    let config = with(&widget("a", json!({})), json!({ "status": { "phase": "Up" } }));
    let path = format!("{}/status", t.widget("a"));
    t.apply(&path, "one", &config).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn shared(t: &CaseRun) -> Result<()> {
    let red = widget("a", json!({ "color": "red" }));
    t.apply(&t.widget("a"), "one", &red).await?.code(201)?;
    let both = t.apply(&t.widget("a"), "two", &red).await?.code(200)?;
    ensure!(both.owned_by("one/Apply/") == both.owned_by("two/Apply/"), "not shared");
    let left = t
        .apply(&t.widget("a"), "one", &widget("a", json!({})))
        .await?
        .code(200)?;
    left.has("/spec/color", "red")?;
    Ok(())
}

async fn last_owner(t: &CaseRun) -> Result<()> {
    let red = widget("a", json!({ "color": "red", "min": 1 }));
    t.apply(&t.widget("a"), "one", &red).await?.code(201)?;
    t.apply(&t.widget("a"), "two", &red).await?.code(200)?;
    let less = widget("a", json!({ "min": 1 }));
    t.apply(&t.widget("a"), "one", &less)
        .await?
        .code(200)?
        .has("/spec/color", "red")?;
    let gone = t.apply(&t.widget("a"), "two", &less).await?.code(200)?;
    gone.lacks("/spec/color")?.has("/spec/min", 1)?;
    Ok(())
}

async fn defaulted_again(t: &CaseRun) -> Result<()> {
    let config = widget("a", json!({ "replicas": 7, "color": "red" }));
    t.apply(&t.widget("a"), "one", &config)
        .await?
        .code(201)?
        .has("/spec/replicas", 7)?;
    let less = widget("a", json!({ "color": "red" }));
    t.apply(&t.widget("a"), "one", &less)
        .await?
        .code(200)?
        .has("/spec/replicas", 1)?;
    Ok(())
}

async fn conflict(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "replicas": 1 })))
        .await?
        .code(201)?;
    let other = widget("a", json!({ "replicas": 2 }));
    let refused = t.apply(&t.widget("a"), "two", &other).await?.refused(409, "Conflict")?;
    let refused = refused.says("Apply failed with 1 conflict: conflict with \"one\": .spec.replicas")?;
    let want = [("FieldManagerConflict".to_owned(), ".spec.replicas".to_owned())];
    ensure!(refused.causes() == want, "{:?}", refused.causes());
    t.get(&t.widget("a")).await?.has("/spec/replicas", 1)?;
    Ok(())
}

async fn several(t: &CaseRun) -> Result<()> {
    let one = widget("a", json!({ "replicas": 1, "color": "red" }));
    t.apply(&t.widget("a"), "one", &one).await?.code(201)?;
    let two = widget("a", json!({ "mode": "fast", "min": 1 }));
    t.apply(&t.widget("a"), "two", &two).await?.code(200)?;
    let three = widget("a", json!({ "replicas": 2, "color": "blue", "mode": "slow", "min": 1 }));
    let refused = t
        .apply(&t.widget("a"), "three", &three)
        .await?
        .refused(409, "Conflict")?;
    refused.says("Apply failed with 3 conflicts: conflicts with \"one\":")?;
    Ok(())
}

async fn updater(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    let refused = t
        .apply(&t.widget("a"), "one", &widget("a", json!({ "color": "blue" })))
        .await?;
    let refused = refused.refused(409, "Conflict")?;
    refused.says("conflict with \"conformance\" using conformance.example.com/v1")?;
    Ok(())
}

async fn force(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "color": "red" })))
        .await?
        .code(201)?;
    let taken = t
        .force_apply(&t.widget("a"), "two", &widget("a", json!({ "color": "blue" })))
        .await?;
    let taken = taken.code(200)?.has("/spec/color", "blue")?;
    ensure!(taken.managers() == ["two/Apply/"], "{:?}", taken.managers());
    Ok(())
}

async fn force_part(t: &CaseRun) -> Result<()> {
    let one = widget("a", json!({ "color": "red", "min": 1 }));
    t.apply(&t.widget("a"), "one", &one).await?.code(201)?;
    let two = widget("a", json!({ "color": "blue" }));
    let taken = t.force_apply(&t.widget("a"), "two", &two).await?.code(200)?;
    let left = json!({ "f:spec": { "f:min": {} } });
    ensure!(taken.owned_by("one/Apply/") == left, "{}", taken.owned_by("one/Apply/"));
    Ok(())
}

async fn update_takes(t: &CaseRun) -> Result<()> {
    t.apply(&t.widget("a"), "one", &widget("a", json!({ "color": "red", "min": 1 })))
        .await?;
    let path = format!("{}?fieldManager=editor", t.widget("a"));
    let patched = t
        .merge(&path, &json!({ "spec": { "color": "blue" } }))
        .await?
        .code(200)?;
    ensure!(
        patched.owned_by("one/Apply/")["f:spec"].get("f:color").is_none(),
        "still owned"
    );
    ensure!(
        patched.owned_by("editor/Update/")["f:spec"].get("f:color").is_some(),
        "not taken"
    );
    Ok(())
}

async fn update_leaves(t: &CaseRun) -> Result<()> {
    let made = t
        .apply(&t.widget("a"), "one", &widget("a", json!({ "color": "red" })))
        .await?;
    let path = format!("{}?fieldManager=editor", t.widget("a"));
    let body = with(&made.body, json!({ "spec": { "min": 1 } }));
    let put = t.put(&path, &body).await?.code(200)?;
    ensure!(
        put.owned_by("one/Apply/") == made.owned_by("one/Apply/"),
        "an equal value was taken"
    );
    Ok(())
}
