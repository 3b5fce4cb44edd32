//! Watches: what is sent, in which order, and how they end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::case::Case;
use crate::case_run::CaseRun;
use crate::verbs::{config_map, widget, with};

pub(super) const CASES: &[Case] = &[
    Case::new("watch/the-life-of-an-object", |t| Box::pin(life(t))),
    Case::new("watch/two-watches-agree", |t| Box::pin(two_watches(t))),
    Case::new("watch/entering-and-leaving-a-label-selector", |t| {
        Box::pin(label_selector(t))
    }),
    Case::new("watch/entering-and-leaving-a-field-selector", |t| {
        Box::pin(field_selector(t))
    }),
    Case::new("watch/one-object-by-name", |t| Box::pin(by_name(t))),
    Case::new("watch/a-status-change-is-an-event", |t| Box::pin(status_change(t))),
    Case::new("watch/unset-version-begins-with-everything", |t| Box::pin(unset(t))),
    Case::new("watch/version-zero-begins-with-everything", |t| Box::pin(zero(t))),
    Case::new("watch/a-version-begins-after-it", |t| Box::pin(after(t))),
    Case::new("watch/all-namespaces", |t| Box::pin(all_namespaces(t))),
    Case::new("watch/a-bad-version-is-refused", |t| Box::pin(bad_version(t))),
    Case::new("watch/a-future-version-is-silent", |t| Box::pin(future(t))),
    Case::new("watch/a-version-from-before-the-window-expires", |t| {
        Box::pin(too_old(t))
    }),
    Case::new("watch/bookmarks-before-the-deadline", |t| Box::pin(bookmarks(t))).uncompared(),
    Case::new("watch/a-bookmark-every-minute", |t| Box::pin(minute(t)))
        .uncompared()
        .long(),
    Case::new("watch/initial-events-end-with-a-bookmark", |t| {
        Box::pin(initial_events(t))
    }),
    Case::new("watch/initial-events-need-the-match", |t| Box::pin(initial_refused(t))),
    Case::new("watch/initial-events-of-nothing", |t| Box::pin(initial_empty(t))),
    Case::new("watch/initial-events-with-a-selector", |t| {
        Box::pin(initial_selected(t))
    }),
    Case::new("watch/initial-events-declined", |t| Box::pin(initial_declined(t))),
    Case::new("watch/the-time-limit-ends-it-cleanly", |t| Box::pin(time_limit(t))),
    Case::new("watch/built-in-kinds", |t| Box::pin(built_in(t))),
    Case::new("watch/the-old-watch-path", |t| Box::pin(old_path(t))),
];

async fn life(t: &CaseRun) -> Result<()> {
    let mut watch = t.watch(&t.widgets()).await?;
    let made = t.new_widget("a", json!({})).await?;
    let changed = t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } })).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    ensure!(
        watch.expect("ADDED", "a").await?.version()? == made.version()?,
        "another version"
    );
    ensure!(
        watch.expect("MODIFIED", "a").await?.object == changed.body,
        "another object"
    );
    let gone = watch.expect("DELETED", "a").await?;
    ensure!(
        gone.version()? > changed.version()?,
        "a deletion has a version of its own"
    );
    ensure!(gone.object["spec"]["color"] == "red", "not the last state");
    Ok(())
}

async fn two_watches(t: &CaseRun) -> Result<()> {
    let mut one = t.watch(&t.widgets()).await?;
    let mut two = t.watch(&t.widgets()).await?;
    for name in ["a", "b"] {
        t.new_widget(name, json!({})).await?;
    }
    t.delete(&t.widget("a")).await?.code(200)?;
    for (kind, name) in [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")] {
        ensure!(
            one.expect(kind, name).await? == two.expect(kind, name).await?,
            "they differ"
        );
    }
    Ok(())
}

async fn label_selector(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let mut watch = t.watch(&format!("{}?labelSelector=on%3Dyes", t.widgets())).await?;
    let label = |value| json!({ "metadata": { "labels": { "on": value } } });
    t.merge(&t.widget("a"), &label("yes")).await?.code(200)?;
    watch.expect("ADDED", "a").await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "color": "red" } }))
        .await?
        .code(200)?;
    watch.expect("MODIFIED", "a").await?;
    let left = t.merge(&t.widget("a"), &label("no")).await?.code(200)?;
    let gone = watch.expect("DELETED", "a").await?;
    ensure!(gone.version()? == left.version()?, "not the version of the change");
    ensure!(gone.object["metadata"]["labels"]["on"] == "yes", "not the old object");
    t.merge(&t.widget("a"), &label("never")).await?.code(200)?;
    watch.silent().await
}

async fn field_selector(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "blue" })).await?;
    let mut watch = t
        .watch(&format!("{}?fieldSelector=spec.color%3Dred", t.widgets()))
        .await?;
    let paint = |color| json!({ "spec": { "color": color } });
    t.merge(&t.widget("a"), &paint("red")).await?.code(200)?;
    watch.expect("ADDED", "a").await?;
    t.merge(&t.widget("a"), &paint("green")).await?.code(200)?;
    watch.expect("DELETED", "a").await?;
    watch.silent().await
}

async fn by_name(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    t.new_widget("b", json!({})).await?;
    let mut watch = t
        .watch(&format!("{}?fieldSelector=metadata.name%3Db", t.widgets()))
        .await?;
    watch.expect("ADDED", "b").await?;
    t.merge(&t.widget("a"), &json!({ "spec": { "min": 1 } }))
        .await?
        .code(200)?;
    watch.silent().await
}

async fn status_change(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let mut watch = t
        .watch(&format!("{}?resourceVersion={}", t.widgets(), made.version()?))
        .await?;
    let path = format!("{}/status", t.widget("a"));
    t.merge(&path, &json!({ "status": { "phase": "Up" } }))
        .await?
        .code(200)?;
    watch.expect("MODIFIED", "a").await?;
    Ok(())
}

async fn begins_with_everything(t: &CaseRun, query: &str) -> Result<()> {
    for name in ["b", "a", "c"] {
        t.new_widget(name, json!({})).await?;
    }
    t.merge(&t.widget("a"), &json!({ "spec": { "min": 1 } }))
        .await?
        .code(200)?;
    let mut watch = t.watch(&format!("{}{query}", t.widgets())).await?;
    let mut names = Vec::new();
    for _ in 0..3 {
        let event = watch.next().await?.context("the watch ended")?;
        ensure!(event.kind == "ADDED", "{}", event.kind);
        names.push(event.name().to_owned());
    }
    names.sort();
    ensure!(names == ["a", "b", "c"], "{names:?}");
    t.delete(&t.widget("b")).await?.code(200)?;
    watch.expect("DELETED", "b").await?;
    Ok(())
}

async fn unset(t: &CaseRun) -> Result<()> {
    begins_with_everything(t, "").await
}

async fn zero(t: &CaseRun) -> Result<()> {
    begins_with_everything(t, "?resourceVersion=0").await
}

async fn after(t: &CaseRun) -> Result<()> {
    let first = t.new_widget("a", json!({})).await?;
    t.new_widget("b", json!({})).await?;
    t.delete(&t.widget("a")).await?.code(200)?;
    let path = format!("{}?resourceVersion={}", t.widgets(), first.version()?);
    let mut watch = t.watch(&path).await?;
    watch.expect("ADDED", "b").await?;
    watch.expect("DELETED", "a").await?;
    watch.silent().await
}

async fn all_namespaces(t: &CaseRun) -> Result<()> {
    let selector = format!("labelSelector=trial%3D{}", t.namespace);
    let path = format!("/apis/conformance.example.com/v1/widgets?{selector}");
    let mut watch = t.watch(&path).await?;
    let label = json!({ "metadata": { "labels": { "trial": t.namespace } } });
    t.create(&t.widgets(), &with(&widget("a", json!({})), label))
        .await?
        .code(201)?;
    watch.expect("ADDED", "a").await?;
    Ok(())
}

async fn bad_version(t: &CaseRun) -> Result<()> {
    for version in ["abc", "-1"] {
        let path = format!("{}?watch=true&resourceVersion={version}", t.widgets());
        let refused = t.get(&path).await?;
        ensure!(refused.code >= 400, "{version}: {}", refused.code);
    }
    Ok(())
}

async fn future(t: &CaseRun) -> Result<()> {
    let path = format!("{}?resourceVersion=999999999&timeoutSeconds=2", t.widgets());
    let mut watch = t.watch(&path).await?;
    t.new_widget("a", json!({})).await?;
    ensure!(watch.next().await?.is_none(), "an event from before the future");
    Ok(())
}

async fn too_old(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let mut watch = t.watch(&format!("{}?resourceVersion=1", t.widgets())).await?;
    let event = watch.next().await?.context("the watch ended without a word")?;
    ensure!(event.kind == "ERROR", "{} {}", event.kind, event.object);
    ensure!(
        event.object["code"] == 410 && event.object["reason"] == "Expired",
        "{}",
        event.object
    );
    let message = event.object["message"].as_str().unwrap_or_default();
    ensure!(message.starts_with("too old resource version: 1 ("), "{message}");
    ensure!(watch.next().await?.is_none(), "the watch goes on");
    Ok(())
}

async fn bookmarks(t: &CaseRun) -> Result<()> {
    let made = t.new_widget("a", json!({})).await?;
    let path = format!(
        "{}?allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion={}",
        t.widgets(),
        made.version()?
    );
    let mut watch = t.watch(&path).await?;
    let other = t
        .create(&t.core("configmaps"), &config_map("c", json!({})))
        .await?
        .version()?;
    let mut seen = Vec::new();
    while let Some(event) = watch.next_within(Duration::from_secs(60)).await? {
        ensure!(event.kind == "BOOKMARK", "{}", event.kind);
        seen.push(event);
    }
    ensure!((1..=3).contains(&seen.len()), "{} bookmarks", seen.len());
    let last = seen.last().context("no bookmark")?;
    let only = json!({
        "kind": "Widget", "apiVersion": "conformance.example.com/v1",
        "metadata": { "resourceVersion": last.object["metadata"]["resourceVersion"] },
    });
    let mut got = last.object.clone();
    got["metadata"]
        .as_object_mut()
        .map(|meta| meta.remove("creationTimestamp"));
    got.as_object_mut().map(|object| object.remove("spec"));
    ensure!(got == only, "{}", last.object);
    ensure!(last.version()? >= other, "other kinds' writes do not advance it");
    Ok(())
}

async fn minute(t: &CaseRun) -> Result<()> {
    let path = format!("{}?allowWatchBookmarks=true&timeoutSeconds=150", t.widgets());
    let mut watch = t.watch(&path).await?;
    // One may come with the beginning, and none comes while nothing is written: the minute is about
    // the first one after a write.
    t.new_widget("a", json!({})).await?;
    watch.expect("ADDED", "a").await?;
    let started = Instant::now();
    let event = watch.next_within(Duration::from_secs(90)).await?.context("ended")?;
    ensure!(event.kind == "BOOKMARK", "{}", event.kind);
    let waited = started.elapsed();
    ensure!(waited > Duration::from_secs(20), "after {waited:?}");
    Ok(())
}

const INITIAL: &str = "sendInitialEvents=true&allowWatchBookmarks=true";

async fn initial_events(t: &CaseRun) -> Result<()> {
    for name in ["a", "b"] {
        t.new_widget(name, json!({})).await?;
    }
    let path = format!("{}?{INITIAL}&resourceVersionMatch=NotOlderThan", t.widgets());
    let mut watch = t.watch(&path).await?;
    watch.expect("ADDED", "a").await?;
    watch.expect("ADDED", "b").await?;
    let end = watch.next().await?.context("the watch ended")?;
    ensure!(end.kind == "BOOKMARK", "{}", end.kind);
    let mark = &end.object["metadata"]["annotations"]["k8s.io/initial-events-end"];
    ensure!(mark == "true", "{}", end.object);
    t.new_widget("c", json!({})).await?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn initial_refused(t: &CaseRun) -> Result<()> {
    let queries = [
        format!("watch=true&{INITIAL}"),
        format!("watch=true&{INITIAL}&resourceVersionMatch=Exact&resourceVersion=1"),
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        "watch=true&resourceVersionMatch=NotOlderThan".to_owned(),
    ];
    for query in queries {
        t.get(&format!("{}?{query}", t.widgets()))
            .await?
            .refused(422, "Invalid")?;
    }
    Ok(())
}

async fn initial_empty(t: &CaseRun) -> Result<()> {
    let path = format!("{}?{INITIAL}&resourceVersionMatch=NotOlderThan", t.widgets());
    let mut watch = t.watch(&path).await?;
    let end = watch.next().await?.context("the watch ended")?;
    ensure!(end.kind == "BOOKMARK", "{} {}", end.kind, end.object);
    Ok(())
}

async fn initial_selected(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({ "color": "red" })).await?;
    t.new_widget("b", json!({ "color": "blue" })).await?;
    let query = format!("{INITIAL}&resourceVersionMatch=NotOlderThan&fieldSelector=spec.color%3Dblue");
    let mut watch = t.watch(&format!("{}?{query}", t.widgets())).await?;
    watch.expect("ADDED", "b").await?;
    let end = watch.next().await?.context("the watch ended")?;
    ensure!(end.kind == "BOOKMARK", "{}", end.kind);
    Ok(())
}

async fn initial_declined(t: &CaseRun) -> Result<()> {
    t.new_widget("a", json!({})).await?;
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = t.watch(&format!("{}?{query}", t.widgets())).await?;
    watch.silent().await
}

async fn time_limit(t: &CaseRun) -> Result<()> {
    let started = Instant::now();
    let mut watch = t.watch(&format!("{}?timeoutSeconds=1", t.widgets())).await?;
    ensure!(watch.next().await?.is_none(), "an event");
    let took = started.elapsed();
    ensure!((900..30_000).contains(&took.as_millis()), "{took:?}");
    Ok(())
}

async fn built_in(t: &CaseRun) -> Result<()> {
    let path = t.core("configmaps");
    let mut watch = t.watch(&path).await?;
    t.create(&path, &config_map("a", json!({ "k": "v" })))
        .await?
        .code(201)?;
    t.delete(&format!("{path}/a")).await?.code(200)?;
    let event = watch.expect("ADDED", "a").await?;
    ensure!(event.object["kind"] == "ConfigMap", "{}", event.object);
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn old_path(t: &CaseRun) -> Result<()> {
    t.create(&t.core("configmaps"), &config_map("a", json!({})))
        .await?
        .code(201)?;
    let path = format!("/api/v1/watch/namespaces/{}/configmaps?timeoutSeconds=1", t.namespace);
    let mut watch = t.watch(&path).await?;
    watch.expect("ADDED", "a").await?;
    Ok(())
}
