//! The same seen from an engine: an input whose watch fails delays nothing else, and a watch that is
//! black-holed shows in what the engine says of itself.

use std::future::pending;
use std::time::Duration;

use aplomb::watch::Scope;
use aplomb::{Engine, Lens};
use aplomb_sim::faults::{Fault, Match, Rule, WatchFault};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::{Lab, on_box, page, seconds, until};
use crate::page;

fn operator(client: Client, required: bool) -> Engine {
    let (all, lens) = (Scope::default(), Lens::everything());
    let controller = page::controller();
    let controller = if required {
        controller.watches(all, lens, |_: &Secret, _| Vec::new())
    } else {
        controller.watches_if_possible(all, lens, |_: &Secret, _| Vec::new())
    };
    Engine::new("pages.example.com", client).controller(controller)
}

/// From each of five edits to the moment its effect is written.
async fn edits(lab: &Lab) -> Vec<Duration> {
    let pages = page(lab).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let mut latencies = Vec::new();
    for title in ["one", "two", "three", "four", "five"] {
        sleep(seconds(17)).await;
        let edit = Patch::Merge(json!({ "spec": { "title": title } }));
        let edited = pages.patch("front", &PatchParams::default(), &edit).await;
        edited.expect("the user's requests meet no faults");
        let written = until(seconds(60), "the edit is carried out", || async {
            let map = maps.get("front").await.ok();
            let data = map.and_then(|map| map.data).unwrap_or_default();
            data.values().any(|html| html.contains(title))
        });
        latencies.push(written.await);
    }
    latencies
}

/// The latencies of five edits, with the watch of the secrets failing in this time or not.
fn with_failing(from: Option<Duration>, required: bool) -> Vec<Duration> {
    on_box(9, move |lab| async move {
        let (client, faults) = lab.client("operator");
        if let Some(from) = from {
            let rule = Rule::new(Fault::InternalError).on(Match::any().resource("secrets"));
            faults.add(rule.between(from, seconds(3600)));
            let cut = Rule::new(Fault::Watch(WatchFault::Dropped(from)));
            faults.add(cut.on(Match::watches().resource("secrets")));
        }
        tokio::select! { biased;
            latencies = edits(&lab) => latencies,
            ended = operator(client, required).run(pending()) => panic!("it ended: {ended:?}"),
        }
    })
}

#[test]
fn an_input_whose_watch_always_fails_delays_no_other_trigger() {
    let alone = with_failing(None, false);
    assert_eq!(with_failing(Some(Duration::ZERO), false), alone);
    assert_eq!(with_failing(Some(seconds(5)), true), alone);
}

#[test]
fn a_required_input_that_never_comes_is_named() {
    let (error, after) = on_box(9, |lab| async move {
        let (client, faults) = lab.client("operator");
        faults.add(Rule::new(Fault::InternalError).on(Match::any().resource("secrets")));
        let _pages = page(&lab).await;
        let begin = Instant::now();
        let engine = operator(client, true).settings(|settings| {
            settings.sync_deadline = seconds(20);
        });
        let error = engine.run(pending()).await.unwrap_err();
        (error.to_string(), begin.elapsed())
    });
    let expected = "the watch of Secret in all namespaces is not ready";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(after, seconds(20));
}

/// The child is deleted ten seconds after its watch was black-holed: when it is there again.
#[test]
fn an_engine_makes_up_for_a_black_holed_watch_within_90_seconds() {
    let healed = on_box(11, |lab| async move {
        let (client, faults) = lab.client("operator");
        let hole = Fault::Watch(WatchFault::BlackHoled(seconds(20)));
        let children = Match::watches().resource("configmaps");
        faults.add(Rule::new(hole).on(children).once());
        let scenario = async {
            let _pages = page(&lab).await;
            let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
            let there = || async { maps.get_opt("front").await.unwrap().is_some() };
            sleep(seconds(30)).await;
            assert!(there().await);
            let deleted = maps.delete("front", &DeleteParams::default()).await;
            deleted.expect("the user's requests meet no faults");
            seconds(10) + until(seconds(200), "the child is there again", there).await
        };
        tokio::select! { biased;
            healed = scenario => healed,
            ended = page::operator(client).run(pending()) => panic!("it ended: {ended:?}"),
        }
    });
    assert!(healed < seconds(90), "{healed:?}");
}
