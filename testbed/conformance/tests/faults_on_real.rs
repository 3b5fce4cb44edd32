//! The fault layer in front of a real kube-apiserver: what it promises there, it keeps.
//!
//! Needs the real control plane, so it is ignored by default; `make test` runs it where the control
//! plane was built.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]

use std::time::Duration;

use anyhow::Result;
use aplomb_apiserver::call::Verb;
use aplomb_controlplane::{ControlPlane, Options};
use aplomb_simulation::faults::{Fault, Faults, Match, Rule, Stale, StaleReads, WatchFault};
use aplomb_simulation::trace::Trace;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(120);

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

/// A client of the real server that meets one fault, whenever `rule` says so.
fn faulty(client: &Client, rule: Rule) -> Api<ConfigMap> {
    let faults = Faults::new("user", &Trace::new());
    faults.add(rule);
    maps(&faults.client(client))
}

async fn conflicts_and_lost_answers(client: &Client) -> Result<()> {
    let real = maps(client);
    let contested = real.create(&PostParams::default(), &map("contested")).await?;
    let rival = faulty(client, Rule::new(Fault::Rival).on(Match::any().verb(Verb::Update)));
    let refused = rival
        .replace("contested", &PostParams::default(), &contested)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("the object has been modified"),
        "{refused}"
    );
    for (name, committed) in [("kept", true), ("lost", false)] {
        let reset = faulty(client, Rule::new(Fault::Reset { committed }));
        assert!(reset.create(&PostParams::default(), &map(name)).await.is_err());
        assert_eq!(real.get_opt(name).await?.is_some(), committed, "{name}");
    }
    let timeout = faulty(client, Rule::new(Fault::Timeout { committed: true }).once());
    let again = timeout.create(&PostParams::default(), &map("twice")).await.unwrap_err();
    assert!(
        again.to_string().contains("already exists"),
        "kube tries a 504 again: {again}"
    );
    let overload = faulty(client, Rule::new(Fault::TooManyRequestsText { retry_after: 1 }).once());
    overload.create(&PostParams::default(), &map("patient")).await?;
    Ok(())
}

async fn broken_watches(client: &Client) -> Result<()> {
    let version = maps(client)
        .list(&Default::default())
        .await?
        .metadata
        .resource_version
        .unwrap();
    let dropped = WatchFault::Dropped(Duration::from_secs(1));
    let watch = faulty(client, Rule::new(Fault::Watch(dropped)));
    let mut events = watch.watch(&WatchParams::default(), &version).await?.boxed();
    assert!(timeout(SOON, events.next()).await?.is_none(), "it ends");
    let expired = faulty(client, Rule::new(Fault::Watch(WatchFault::Expired)));
    let mut events = expired.watch(&WatchParams::default(), &version).await?.boxed();
    let event = timeout(SOON, events.next()).await?.unwrap()?;
    assert!(matches!(event, kube::api::WatchEvent::Error(status) if status.code == 410));
    Ok(())
}

async fn an_old_view(client: &Client) -> Result<()> {
    let real = maps(client);
    real.create(&PostParams::default(), &map("old")).await?;
    let gone = real.create(&PostParams::default(), &map("gone")).await?;
    let revision = gone.resource_version().unwrap().parse()?;
    let change = Patch::Merge(json!({ "data": { "key": "new" } }));
    real.patch("old", &PatchParams::default(), &change).await?;
    real.delete("gone", &DeleteParams::default()).await?;
    // Time for the reads before it, on a slow machine too.
    let until = Some(Duration::from_secs(10));
    let stale = Stale {
        revision,
        until,
        reads: StaleReads::All,
    };
    let stale = faulty(client, Rule::new(Fault::Stale(stale)));
    assert_eq!(stale.get("old").await?.data, None);
    assert!(stale.get_opt("gone").await?.is_some());
    let listed = stale.list(&Default::default()).await?;
    assert!(listed.items.iter().any(|map| map.name_any() == "gone"));
    let version = listed.metadata.resource_version.unwrap();
    let mut events = stale.watch(&WatchParams::default(), &version).await?.boxed();
    assert!(
        timeout(Duration::from_millis(500), events.next()).await.is_err(),
        "it stands still"
    );
    let event = timeout(SOON, events.next()).await?.unwrap()?;
    assert!(matches!(event, kube::api::WatchEvent::Modified(map) if map.name_any() == "old"));
    Ok(())
}

#[tokio::test]
#[ignore = "needs the real control plane: run by make test"]
async fn the_layer_keeps_its_promises_in_front_of_a_real_server() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client().await?;
    conflicts_and_lost_answers(&client).await?;
    broken_watches(&client).await?;
    an_old_view(&client).await
}
