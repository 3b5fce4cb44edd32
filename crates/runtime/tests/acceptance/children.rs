//! Promise: an unwanted child is deleted, a deleted one is not recreated, one of another writer
//! is left alone, and writes without the lease are reported.

use aplomb::conditions::PassOutcome;
use aplomb::leadership::fence::Fence;
use aplomb::writer::LiveObjects;
use aplomb::{Action, ErrorClass, ObjectKey};
use aplomb_simulation::faults::WatchFault;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bench::{Bench, HoldPoint, MANAGER, config_map};
use crate::lab::{Lab, on_box, on_real, page, seconds, wait_until};

const SETTLED: PassOutcome<'static> = PassOutcome::Action(&Action::Done);

/// The remaining children after one is not wanted any more.
async fn remaining_children(lab: Lab, prunes: bool) -> Vec<String> {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    let front = bench.front();
    let first = bench.pass(&front);
    for name in ["kept", "dropped"] {
        first.apply(&config_map(name, "x"), Some(&bench.maps)).await.unwrap();
    }
    bench.make_foreign(&lab, "theirs").await;
    wait_until(seconds(5), "the cache shows their child", || async {
        bench.map("theirs").is_some()
    })
    .await;
    let second = bench.pass(&front);
    second.apply(&config_map("kept", "x"), Some(&bench.maps)).await.unwrap();
    if prunes {
        assert_eq!(second.prune::<ConfigMap>(&bench.maps).await.unwrap(), 1);
        assert!(bench.map("dropped").is_none(), "the next read must show the deletion");
        assert_eq!(second.prune::<ConfigMap>(&bench.maps).await.unwrap(), 0);
    }
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let all = maps.list(&ListParams::default()).await.unwrap();
    let ours = all.iter().filter(|map| !map.owner_references().is_empty());
    ours.map(ResourceExt::name_any).collect()
}

#[test]
fn undesired_child_is_deleted() {
    assert_eq!(on_box(4, |lab| remaining_children(lab, true)), ["kept", "theirs"]);
    assert_eq!(
        on_box(4, |lab| remaining_children(lab, false)),
        ["dropped", "kept", "theirs"]
    );
}

#[test]
#[ignore = "needs the real control plane"]
fn real_undesired_child_is_deleted() {
    assert_eq!(on_real(|lab| remaining_children(lab, true)), ["kept", "theirs"]);
}

/// One pass adds the finalizer and does all the rest; one removes it.
async fn finalized(lab: Lab) {
    const NAME: &str = "example.com/cleanup";
    let pages = page(&lab).await;
    let bench = Bench::start(&lab).await;
    let pass = bench.pass(&bench.front());
    pass.add_finalizer(NAME).await.unwrap();
    pass.apply(&config_map("child", "x"), Some(&bench.maps)).await.unwrap();
    pass.flush(SETTLED).await.unwrap();
    let front = pages.get("front").await.unwrap();
    assert_eq!(front.finalizers(), [NAME]);
    assert_eq!(front.status.unwrap().observed_generation, Some(1));
    assert_eq!(bench.answers.writes().len(), 3);

    pages.delete("front", &DeleteParams::default()).await.unwrap();
    wait_until(seconds(5), "the deletion is seen", || async {
        bench.front().metadata.deletion_timestamp.is_some()
    })
    .await;
    let pass = bench.pass(&bench.front());
    pass.remove_finalizer(NAME).await.unwrap();
    assert!(
        bench.pages.get(&bench.key).is_none(),
        "the next read must show the deletion"
    );
    pass.flush(SETTLED).await.unwrap();
    assert!(pages.get_opt("front").await.unwrap().is_none());
    assert_eq!(
        bench.answers.writes().len(),
        4,
        "no status is written for a deleted object"
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

/// Another writer adds a finalizer, or only writes elsewhere, while the cache lags.
async fn contested_finalizer(lab: Lab, theirs: Value) -> Option<ErrorClass> {
    let pages = page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(60))).await;
    let patch = Patch::Merge(theirs);
    pages.patch("front", &PatchParams::default(), &patch).await.unwrap();
    let pass = bench.pass(&bench.front());
    let error = pass.add_finalizer("example.com/cleanup").await.err()?;
    let (object, version) = error.object().expect("a conflict names its object");
    assert_eq!((&*object.kind, version.is_some()), ("Page", true));
    Some(error.class())
}

#[test]
fn only_a_concurrent_finalizer_is_a_conflict() {
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/other"] } });
    let elsewhere = json!({ "metadata": { "labels": { "a": "b" } } });
    let (theirs, other) = (finalizers.clone(), elsewhere.clone());
    assert_eq!(
        on_box(6, |lab| contested_finalizer(lab, theirs)),
        Some(ErrorClass::Conflict)
    );
    assert_eq!(on_box(6, |lab| contested_finalizer(lab, other)), None);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_concurrent_finalizer_is_a_conflict() {
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/other"] } });
    assert_eq!(
        on_real(|lab| contested_finalizer(lab, finalizers)),
        Some(ErrorClass::Conflict)
    );
}

/// A child is deleted while the cache still shows it. Returns whether it exists after the next write.
async fn recreates_deleted_child(lab: Lab, with_uid: bool) -> bool {
    page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(60))).await;
    let front = bench.front();
    let first = config_map("child", "1");
    bench.pass(&front).apply(&first, Some(&bench.maps)).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    maps.delete("child", &DeleteParams::default()).await.unwrap();
    if with_uid {
        let second = config_map("child", "2");
        let error = bench.pass(&front).apply(&second, Some(&bench.maps)).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conflict, "{error}");
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
fn deleted_child_is_not_recreated_from_a_stale_cache() {
    assert!(!on_box(7, |lab| recreates_deleted_child(lab, true)));
    assert!(on_box(7, |lab| recreates_deleted_child(lab, false)));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_deleted_child_is_not_recreated_from_a_stale_cache() {
    assert!(!on_real(|lab| recreates_deleted_child(lab, true)));
}

/// A child that another object controls is left alone, and the error names that object.
async fn foreign_child(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    bench.make_controlled(&lab, "child", "other").await;
    wait_until(seconds(5), "the cache shows their child", || async {
        bench.map("child").is_some()
    })
    .await;
    let pass = bench.pass(&bench.front());
    let wanted = config_map("child", "mine");
    for known in [Some(&bench.maps as &dyn LiveObjects), None] {
        let error = pass.apply(&wanted, known).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Exists);
        assert!(error.to_string().contains("controlled by ConfigMap other"), "{error}");
    }
    let known = Some(&bench.maps as &dyn LiveObjects);
    let key = ObjectKey::new(Some("default"), "child");
    let error = pass.delete::<ConfigMap>(&key, known).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Exists);
    assert!(bench.answers.writes().is_empty());
    assert_eq!(pass.prune::<ConfigMap>(&bench.maps).await.unwrap(), 0);
}

/// The same while the cache does not show it yet: the server rejects a second controller.
async fn unseen_foreign_child(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(60))).await;
    bench.make_controlled(&lab, "child", "other").await;
    let pass = bench.pass(&bench.front());
    let wanted = config_map("child", "mine");
    let error = pass.apply(&wanted, Some(&bench.maps)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Exists, "{error}");
}

#[test]
fn foreign_child_is_not_changed() {
    on_box(8, foreign_child);
    on_box(8, unseen_foreign_child);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_foreign_child_is_not_changed() {
    on_real(foreign_child);
    on_real(unseen_foreign_child);
}

/// Another writer changes the child between our read and our write: both changes stay.
async fn write_against_other_writer(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(60))).await;
    let pass = bench.pass(&bench.front());
    pass.apply(&config_map("child", "1"), Some(&bench.maps)).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let patch = Patch::Merge(json!({ "data": { "theirs": "x" } }));
    maps.patch("child", &PatchParams::default(), &patch).await.unwrap();
    let applied = pass.apply(&config_map("child", "2"), Some(&bench.maps)).await.unwrap();
    assert_eq!(applied.object.data.unwrap()["theirs"], "x");
}

#[test]
fn write_merges_with_another_writer() {
    on_box(9, write_against_other_writer);
}

/// The lease ends two seconds into a write that is delayed by five, on its way there or back. Returns how
/// many stale effects are counted, and whether the write was stored.
async fn stale_write(lab: Lab, leased: bool, held_up: HoldPoint) -> (u64, bool) {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    let fence = if leased { Fence::closed() } else { Fence::always_open() };
    if leased {
        fence.extend_until(Instant::now() + seconds(2));
    }
    let pass = bench.fenced_pass(&bench.front(), &fence, held_up);
    let child = config_map("child", "x");
    let applied = pass.apply(&child, Some(&bench.maps)).await;
    assert_eq!(applied.is_err(), leased, "a stale pass must not continue");
    if leased {
        let sent = bench.answers.writes().len();
        let other = config_map("other", "x");
        assert!(pass.apply(&other, Some(&bench.maps)).await.is_err());
        assert_eq!(bench.answers.writes().len(), sent, "nothing is sent without the lease");
    }
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let landed = maps.get_opt("child").await.unwrap().is_some();
    (bench.telemetry.writes.stale_effects("apiserver"), landed)
}

#[test]
fn a_write_that_outlives_the_lease_is_counted() {
    let run = |leased, held_up| on_box(12, move |lab| stale_write(lab, leased, held_up));
    assert_eq!(run(true, HoldPoint::BeforeResponse), (1, true));
    assert_eq!(
        run(true, HoldPoint::BeforeRequest),
        (1, false),
        "a write that still waits is not sent"
    );
    assert_eq!(run(false, HoldPoint::BeforeResponse), (0, true));
}

/// A few fields of an object of another writer: only those fields become ours.
async fn apply_unowned(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    let pass = bench.pass(&bench.front());
    let mut mark = config_map("theirs", "ours");
    let error = pass.apply_unowned(&mark, None).await.unwrap_err();
    assert_eq!(
        error.class(),
        ErrorClass::Missing,
        "a missing object is not created from a part of it"
    );
    bench.make_controlled(&lab, "theirs", "other").await;
    mark.data = None;
    pass.apply_unowned(&mark, None).await.unwrap();
    pass.apply_unowned(&mark, None).await.unwrap();
    assert_eq!(bench.answers.writes().len(), 1, "read first, then left alone");
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let map = maps.get("theirs").await.unwrap();
    assert_eq!(map.labels()["app"], "page");
    assert_eq!(map.data.as_ref().unwrap()["value"], "theirs");
    assert_eq!(map.owner_references().len(), 1);
}

#[test]
fn unowned_apply_owns_only_its_fields() {
    on_box(13, apply_unowned);
}
