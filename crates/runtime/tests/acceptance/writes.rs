//! Promise: an equal object is not written, a write is visible to the next read, and no write
//! of ours runs us again or hides a change of another writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aplomb::conditions::PassOutcome;
use aplomb::{Action, Context, Controller, Engine, ErrorClass, Predicate};
use aplomb_simulation::faults::WatchFault;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use crate::bench::{Bench, CacheWithoutData, CacheWithoutWrites, MANAGER, config_map, deployment, service};
use crate::lab::{Answers, Lab, on_box, on_real, page, seconds, wait_until};
use crate::page::Page;

const SETTLED: PassOutcome<'static> = PassOutcome::Action(&Action::Done);

/// A page that counts its passes in its status, each from the cached object, back to back. With a
/// lagging watch, only the cache's overlay of our own writes has the last count.
async fn increments(lab: Lab, remembers: bool) -> (usize, usize) {
    const TIMES: usize = 1_000;
    let pages = page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Lagged(Duration::from_millis(20))).await;
    let mut conflicts = 0;
    for _ in 0..TIMES {
        let front = bench.front();
        let count = front.status.as_ref().map_or(0, |status| status.words) + 1;
        let pass = if remembers {
            bench.pass(&front)
        } else {
            bench.pass_with(&front, Arc::new(CacheWithoutWrites(bench.pages.clone())))
        };
        pass.status(json!({ "words": count }));
        match pass.flush(SETTLED).await {
            Ok(()) => {}
            Err(error) if error.class() == ErrorClass::Conflict => conflicts += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let counted = pages.get("front").await.unwrap().status.unwrap().words;
    (conflicts, TIMES - counted)
}

#[test]
fn thousand_increments_from_the_cache_are_all_kept() {
    assert_eq!(on_box(1, |lab| increments(lab, true)), (0, 0));
    let (_, lost) = on_box(1, |lab| increments(lab, false));
    assert!(lost > 0, "without the overlay some must be lost");
}

#[test]
#[ignore = "needs the real control plane"]
fn real_thousand_increments_from_the_cache_are_all_kept() {
    assert_eq!(on_real(|lab| increments(lab, true)), (0, 0));
    let (_, lost) = on_real(|lab| increments(lab, false));
    assert!(lost > 0, "without the overlay some must be lost");
}

/// Writes everything that a page needs, like a typical operator.
async fn converge(bench: &Bench, count: usize) {
    let front = bench.front();
    let pass = bench.pass(&front);
    for number in 0..count {
        let map = config_map(&format!("map-{number}"), "same");
        pass.apply(&map, Some(&bench.maps)).await.unwrap();
        let service = service(&format!("service-{number}"));
        pass.apply(&service, Some(&bench.services)).await.unwrap();
        let deployment = deployment(&format!("deployment-{number}"), "1");
        pass.apply(&deployment, Some(&bench.deployments)).await.unwrap();
    }
    pass.status(json!({ "words": 7 }));
    pass.flush(SETTLED).await.unwrap();
}

/// How many writes a restart costs.
async fn restart(lab: Lab, count: usize) -> usize {
    page(&lab).await;
    converge(&Bench::start(&lab).await, count).await;
    let again = Bench::start(&lab).await;
    converge(&again, count).await;
    again.answers.writes().len()
}

#[test]
fn a_restart_of_converged_objects_writes_nothing() {
    assert_eq!(on_box(2, |lab| restart(lab, 50)), 0);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_restart_of_converged_objects_writes_nothing() {
    assert_eq!(on_real(|lab| restart(lab, 10)), 0);
}

/// A quantity that the server normalizes: writes by pass, with a restart before the third.
async fn write_normalized_values(lab: Lab) -> Vec<usize> {
    page(&lab).await;
    let mut counts = Vec::new();
    let mut bench = Bench::start(&lab).await;
    for number in 0..4 {
        if number == 2 {
            bench = Bench::start(&lab).await;
        }
        let before = bench.answers.writes().len();
        let wanted = deployment("odd", "1000m");
        let pass = bench.pass(&bench.front());
        pass.apply(&wanted, Some(&bench.deployments)).await.unwrap();
        counts.push(bench.answers.writes().len() - before);
    }
    counts
}

#[test]
fn normalized_value_is_written_once_per_process() {
    assert_eq!(on_box(3, write_normalized_values), [1, 0, 1, 0]);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_normalized_value_is_written_once_per_process() {
    assert_eq!(on_real(write_normalized_values), [1, 0, 1, 0]);
}

/// A write that changes nothing is answered with a version of another writer. Checks that its change
/// is reported as foreign.
async fn change_behind_no_op(lab: Lab) {
    page(&lab).await;
    let lag = WatchFault::Lagged(Duration::from_millis(300));
    let bench = Bench::start_with(&lab, lag).await;
    let front = bench.front();
    let wanted = config_map("child", "1");
    bench.pass(&front).apply(&wanted, Some(&bench.maps)).await.unwrap();
    wait_until(seconds(5), "the event of the child arrives", || async {
        bench.event_origins("child").len() == 1
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let patch = Patch::Merge(json!({ "data": { "theirs": "x" } }));
    maps.patch("child", &PatchParams::default(), &patch).await.unwrap();
    let known = CacheWithoutData(bench.maps.clone());
    bench.pass(&front).apply(&wanted, Some(&known)).await.unwrap();
    wait_until(seconds(5), "the event of the change arrives", || async {
        bench.event_origins("child").len() == 2
    })
    .await;
    let own: Vec<bool> = bench.event_origins("child");
    assert_eq!(own, [true, false], "the other writer's change passes");
}

#[test]
fn no_op_write_hides_no_foreign_change() {
    on_box(10, change_behind_no_op);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_no_op_write_hides_no_foreign_change() {
    on_real(change_behind_no_op);
}

/// How often a reconcile runs: after its own writes alone, and after another writer's.
async fn runs(lab: Lab) -> (usize, usize) {
    let pages = page(&lab).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let reconcile = move |page: Arc<Page>, cx: Context<Page>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.add_finalizer("example.com/cleanup").await?;
            cx.apply(config_map("child", &page.spec.title)).await?;
            cx.apply(deployment("child", "1000m")).await?;
            cx.status(json!({ "words": page.spec.title.len() }));
            Ok(Action::Done)
        }
    };
    let controller = Controller::new("page", reconcile)
        .owns::<ConfigMap>(Predicate::always())
        .owns::<k8s_openapi::api::apps::v1::Deployment>(Predicate::always())
        .predicate(Predicate::always());
    let answers = Answers::default();
    let engine = Engine::new(MANAGER, answers.for_client(&lab.client("operator").0)).controller(controller);
    let scenario = async {
        wait_until(seconds(10), "the status is written", || async {
            pages.get("front").await.unwrap().status.is_some()
        })
        .await;
        sleep(seconds(3)).await;
        let alone = runs.load(Ordering::SeqCst);
        let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
        let patch = Patch::Merge(json!({ "data": { "value": "theirs" } }));
        maps.patch("child", &PatchParams::default(), &patch).await.unwrap();
        wait_until(seconds(10), "the child is corrected", || async {
            maps.get("child").await.unwrap().data.unwrap()["value"] == "a title"
        })
        .await;
        sleep(seconds(3)).await;
        (alone, runs.load(Ordering::SeqCst))
    };
    tokio::select! { biased;
        counts = scenario => counts,
        ended = engine.run(std::future::pending()) => panic!("the engine ended: {ended:?}"),
    }
}

#[test]
fn own_writes_never_trigger_a_run() {
    assert_eq!(on_box(11, runs), (1, 2));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_own_writes_never_trigger_a_run() {
    assert_eq!(on_real(runs), (1, 2));
}
