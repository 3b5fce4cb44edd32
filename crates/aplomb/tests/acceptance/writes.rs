//! Promise: what is so already is not written, what is written is seen by the next read, and nothing
//! is overwritten, brought back or taken over unawares.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aplomb::conditions::Outcome;
use aplomb::telemetry::WriteResult;
use aplomb::{Class, Context, Controller, Engine, Lens, Verdict};
use aplomb_sim::faults::{Fault, Match, Rule, WatchFault};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use crate::bench::{Bench, MANAGER, Oblivious, config_map, deployment, service};
use crate::conflicts::{page, seconds};
use crate::lab::{Answers, Lab, on_box, on_real, until};
use crate::page::Page;

const SETTLED: Outcome<'static> = Outcome::Verdict(&Verdict::Settled);

/// A page that counts its passes in its status, each from the cached object, back to back. With the
/// watch behind, only the cache's memory of our own writes knows the last count.
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
            bench.pass_with(&front, Arc::new(Oblivious(bench.pages.clone())))
        };
        pass.status(json!({ "words": count }));
        match pass.flush(SETTLED).await {
            Ok(()) => {}
            Err(error) if error.class() == Class::Conflict => conflicts += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let counted = pages.get("front").await.unwrap().status.unwrap().words;
    (conflicts, TIMES - counted)
}

#[test]
fn a_thousand_increments_from_the_cache_lose_none() {
    assert_eq!(on_box(1, |lab| increments(lab, true)), (0, 0));
    let (_, lost) = on_box(1, |lab| increments(lab, false));
    assert!(lost > 0, "without the overlay some must be lost");
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_thousand_increments_from_the_cache_lose_none() {
    assert_eq!(on_real(|lab| increments(lab, true)), (0, 0));
    let (_, lost) = on_real(|lab| increments(lab, false));
    assert!(lost > 0, "without the overlay some must be lost");
}

/// Everything a page wants, written as usual kinds write it.
async fn converge(bench: &Bench, count: usize, suppress: bool) {
    let front = bench.front();
    let pass = if suppress {
        bench.pass(&front)
    } else {
        bench.eager_pass(&front)
    };
    for number in 0..count {
        let map = config_map(&format!("map-{number}"), "same");
        pass.apply(&map, Some(&bench.maps)).await.unwrap();
        let service = service(&format!("service-{number}"));
        pass.apply(&service, Some(&bench.services)).await.unwrap();
        let deployment = deployment(&format!("deployment-{number}"), "1");
        pass.apply(&deployment, Some(&bench.deployments))
            .await
            .unwrap();
    }
    pass.status(json!({ "words": 7 }));
    pass.flush(SETTLED).await.unwrap();
}

/// How many requests a restart costs, and how many when nothing is left out.
async fn restart(lab: Lab, count: usize) -> (usize, usize) {
    page(&lab).await;
    converge(&Bench::start(&lab).await, count, true).await;
    let again = Bench::start(&lab).await;
    converge(&again, count, true).await;
    let eager = Bench::start(&lab).await;
    converge(&eager, count, false).await;
    (again.answers.writes().len(), eager.answers.writes().len())
}

#[test]
fn a_restart_of_converged_objects_writes_nothing() {
    assert_eq!(on_box(2, |lab| restart(lab, 50)), (0, 151));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_restart_of_converged_objects_writes_nothing() {
    assert_eq!(on_real(|lab| restart(lab, 10)), (0, 31));
}

/// A quantity that the server spells otherwise: writes by pass, with a restart before the third.
async fn odd(lab: Lab) -> Vec<usize> {
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
fn what_the_server_spells_otherwise_is_written_once_per_process() {
    assert_eq!(on_box(3, odd), [1, 0, 1, 0]);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_what_the_server_spells_otherwise_is_written_once_per_process() {
    assert_eq!(on_real(odd), [1, 0, 1, 0]);
}

/// Which children are left when one is no longer wanted.
async fn left(lab: Lab, prunes: bool) -> Vec<String> {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    let front = bench.front();
    let first = bench.pass(&front);
    for name in ["kept", "dropped"] {
        first
            .apply(&config_map(name, "x"), Some(&bench.maps))
            .await
            .unwrap();
    }
    bench.make_foreign(&lab, "theirs").await;
    until(seconds(5), "their child is seen", || async {
        bench.map("theirs").is_some()
    })
    .await;
    let second = bench.pass(&front);
    second
        .apply(&config_map("kept", "x"), Some(&bench.maps))
        .await
        .unwrap();
    if prunes {
        assert_eq!(second.prune::<ConfigMap>(&bench.maps).await.unwrap(), 1);
        assert!(bench.map("dropped").is_none(), "the next read must know");
        assert_eq!(second.prune::<ConfigMap>(&bench.maps).await.unwrap(), 0);
    }
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let all = maps.list(&kube::api::ListParams::default()).await.unwrap();
    let ours = all.iter().filter(|map| !map.owner_references().is_empty());
    ours.map(ResourceExt::name_any).collect()
}

#[test]
fn a_child_that_is_no_longer_wanted_goes() {
    assert_eq!(on_box(4, |lab| left(lab, true)), ["kept", "theirs"]);
    assert_eq!(
        on_box(4, |lab| left(lab, false)),
        ["dropped", "kept", "theirs"]
    );
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_child_that_is_no_longer_wanted_goes() {
    assert_eq!(on_real(|lab| left(lab, true)), ["kept", "theirs"]);
}

/// One pass puts the finalizer on and does all the rest; one takes it off.
async fn finalized(lab: Lab) {
    const NAME: &str = "example.com/cleanup";
    let pages = page(&lab).await;
    let bench = Bench::start(&lab).await;
    let pass = bench.pass(&bench.front());
    pass.finalizer(NAME).await.unwrap();
    pass.apply(&config_map("child", "x"), Some(&bench.maps))
        .await
        .unwrap();
    pass.flush(SETTLED).await.unwrap();
    let front = pages.get("front").await.unwrap();
    assert_eq!(front.finalizers(), [NAME]);
    assert_eq!(front.status.unwrap().observed_generation, Some(1));
    assert_eq!(bench.answers.writes().len(), 3);

    pages
        .delete("front", &DeleteParams::default())
        .await
        .unwrap();
    until(seconds(5), "the deletion is seen", || async {
        bench.front().metadata.deletion_timestamp.is_some()
    })
    .await;
    let pass = bench.pass(&bench.front());
    pass.release_finalizer(NAME).await.unwrap();
    assert!(
        bench.pages.get(&bench.key).is_none(),
        "the next read must know"
    );
    pass.flush(SETTLED).await.unwrap();
    assert!(pages.get_opt("front").await.unwrap().is_none());
    assert_eq!(
        bench.answers.writes().len(),
        4,
        "nothing is said of what is gone"
    );
}

#[test]
fn a_finalizer_needs_no_second_pass() {
    on_box(5, finalized);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_finalizer_needs_no_second_pass() {
    on_real(finalized);
}

/// Somebody else sets a finalizer, or only writes elsewhere, while the cache is behind.
async fn contested_finalizer(lab: Lab, theirs: serde_json::Value) -> Option<Class> {
    let pages = page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(60))).await;
    let patch = Patch::Merge(theirs);
    pages
        .patch("front", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let pass = bench.pass(&bench.front());
    let error = pass.finalizer("example.com/cleanup").await.err()?;
    let (object, version) = error.object().expect("a conflict says on what");
    assert_eq!((&*object.kind, version.is_some()), ("Page", true));
    Some(error.class())
}

#[test]
fn a_finalizer_set_meanwhile_is_a_conflict_and_anything_else_is_not() {
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/other"] } });
    let elsewhere = json!({ "metadata": { "labels": { "a": "b" } } });
    let (theirs, other) = (finalizers.clone(), elsewhere.clone());
    assert_eq!(
        on_box(6, |lab| contested_finalizer(lab, theirs)),
        Some(Class::Conflict)
    );
    assert_eq!(on_box(6, |lab| contested_finalizer(lab, other)), None);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_finalizer_set_meanwhile_is_a_conflict() {
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/other"] } });
    assert_eq!(
        on_real(|lab| contested_finalizer(lab, finalizers)),
        Some(Class::Conflict)
    );
}

/// A child is deleted while the cache still shows it. Whether it is back after the next write.
async fn comes_back(lab: Lab, with_uid: bool) -> bool {
    page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(60))).await;
    let front = bench.front();
    let first = config_map("child", "1");
    bench
        .pass(&front)
        .apply(&first, Some(&bench.maps))
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    maps.delete("child", &DeleteParams::default())
        .await
        .unwrap();
    if with_uid {
        let second = config_map("child", "2");
        let error = bench
            .pass(&front)
            .apply(&second, Some(&bench.maps))
            .await
            .unwrap_err();
        assert_eq!(error.class(), Class::Conflict, "{error}");
    } else {
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "child" },
        }));
        maps.patch("child", &parameters, &patch).await.unwrap();
    }
    maps.get_opt("child").await.unwrap().is_some()
}

#[test]
fn a_deleted_child_is_not_brought_back_unawares() {
    assert!(!on_box(7, |lab| comes_back(lab, true)));
    assert!(on_box(7, |lab| comes_back(lab, false)));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_deleted_child_is_not_brought_back_unawares() {
    assert!(!on_real(|lab| comes_back(lab, true)));
}

/// A child that another object controls is left alone, and the error says whose it is.
async fn taken(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    bench.make_controlled(&lab, "child", "rival").await;
    until(seconds(5), "their child is seen", || async {
        bench.map("child").is_some()
    })
    .await;
    let pass = bench.pass(&bench.front());
    let wanted = config_map("child", "mine");
    for known in [Some(&bench.maps as &dyn aplomb::writer::Known), None] {
        let error = pass.apply(&wanted, known).await.unwrap_err();
        assert_eq!(error.class(), Class::Exists);
        assert!(
            error.to_string().contains("controlled by ConfigMap rival"),
            "{error}"
        );
    }
    assert!(bench.answers.writes().is_empty());
    assert_eq!(pass.prune::<ConfigMap>(&bench.maps).await.unwrap(), 0);
}

#[test]
fn a_child_of_somebody_else_is_left_alone() {
    on_box(8, taken);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_child_of_somebody_else_is_left_alone() {
    on_real(taken);
}

/// A rival writes the child between our read and our write.
async fn rival(lab: Lab, locked: bool) -> Option<Class> {
    page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(60))).await;
    let pass = bench.pass(&bench.front());
    pass.apply(&config_map("child", "1"), Some(&bench.maps))
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let patch = Patch::Merge(json!({ "data": { "theirs": "x" } }));
    maps.patch("child", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let wanted = config_map("child", "2");
    let known = Some(&bench.maps as &dyn aplomb::writer::Known);
    let applied = match locked {
        true => pass.apply_locked(&wanted, known).await,
        false => pass.apply(&wanted, known).await,
    };
    let error = applied.err()?;
    let (object, version) = error.object().expect("a conflict says on what");
    assert_eq!((&*object.key.name, version.is_some()), ("child", true));
    let counted = bench
        .telemetry
        .writes
        .writes("ConfigMap", "apply", WriteResult::Conflict);
    assert_eq!(counted, 1);
    Some(error.class())
}

#[test]
fn a_locked_write_notices_a_rival_and_another_merges() {
    assert_eq!(on_box(9, |lab| rival(lab, true)), Some(Class::Conflict));
    assert_eq!(on_box(9, |lab| rival(lab, false)), None);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_locked_write_notices_a_rival_and_another_merges() {
    assert_eq!(on_real(|lab| rival(lab, true)), Some(Class::Conflict));
}

/// A write that changes nothing is answered with a version somebody else made. Whether that change
/// is told as somebody else's.
async fn hidden_by_no_op(lab: Lab) {
    page(&lab).await;
    let lag = WatchFault::Lagged(Duration::from_millis(300));
    let bench = Bench::start_with(&lab, lag).await;
    let front = bench.front();
    let wanted = config_map("child", "1");
    bench
        .pass(&front)
        .apply(&wanted, Some(&bench.maps))
        .await
        .unwrap();
    until(seconds(5), "the child is told", || async {
        bench.told("child").len() == 1
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let patch = Patch::Merge(json!({ "data": { "theirs": "x" } }));
    maps.patch("child", &PatchParams::default(), &patch)
        .await
        .unwrap();
    bench
        .eager_pass(&front)
        .apply(&wanted, Some(&bench.maps))
        .await
        .unwrap();
    until(seconds(5), "the change is told", || async {
        bench.told("child").len() == 2
    })
    .await;
    let own: Vec<bool> = bench.told("child");
    assert_eq!(own, [true, false], "their change is news");
}

#[test]
fn a_write_that_changes_nothing_hides_nobodys_change() {
    on_box(10, hidden_by_no_op);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_a_write_that_changes_nothing_hides_nobodys_change() {
    on_real(hidden_by_no_op);
}

/// How often a reconcile runs: after its own writes alone, and after another's.
async fn runs(lab: Lab) -> (usize, usize) {
    let pages = page(&lab).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let reconcile = move |page: Arc<Page>, cx: Context<Page>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.finalizer("example.com/cleanup").await?;
            cx.apply(config_map("child", &page.spec.title)).await?;
            cx.apply(deployment("child", "1000m")).await?;
            cx.status(json!({ "words": page.spec.title.len() }));
            Ok(Verdict::Settled)
        }
    };
    let controller = Controller::new("page", reconcile)
        .owns::<ConfigMap>(Lens::everything())
        .owns::<k8s_openapi::api::apps::v1::Deployment>(Lens::everything())
        .lens(Lens::everything());
    let answers = Answers::default();
    let engine = Engine::new(MANAGER, answers.of(&lab.client("operator").0)).controller(controller);
    let scenario = async {
        until(seconds(10), "the status is written", || async {
            pages.get("front").await.unwrap().status.is_some()
        })
        .await;
        sleep(seconds(3)).await;
        let alone = runs.load(Ordering::SeqCst);
        let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
        let patch = Patch::Merge(json!({ "data": { "value": "theirs" } }));
        maps.patch("child", &PatchParams::default(), &patch)
            .await
            .unwrap();
        until(seconds(10), "it is put right", || async {
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

/// The lease ends while the answer is on its way.
async fn stale(lab: Lab, leased: bool) -> u64 {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    let fence = if leased {
        let fence = aplomb::fence::Fence::shut();
        fence.hold_until(tokio::time::Instant::now() + seconds(2));
        fence
    } else {
        aplomb::fence::Fence::open()
    };
    let latency = Fault::Latency(aplomb_sim::faults::Latency::Fixed(seconds(5)));
    bench.faults.add(Rule::new(latency).on(Match::writes()));
    let pass = bench.fenced_pass(&bench.front(), &fence);
    let child = config_map("child", "x");
    let applied = pass.apply(&child, Some(&bench.maps)).await;
    assert_eq!(applied.is_err(), leased, "a stale pass must not go on");
    if leased {
        let sent = bench.answers.writes().len();
        let other = config_map("other", "x");
        assert!(pass.apply(&other, Some(&bench.maps)).await.is_err());
        assert_eq!(
            bench.answers.writes().len(),
            sent,
            "nothing is sent without the lease"
        );
    }
    bench.telemetry.writes.stale_effects("apiserver")
}

#[test]
fn a_write_that_outlives_the_lease_is_counted() {
    assert_eq!(on_box(12, |lab| stale(lab, true)), 1);
    assert_eq!(on_box(12, |lab| stale(lab, false)), 0);
}
