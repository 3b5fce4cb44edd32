//! Promise: an object that another writer has created is neither taken over nor deleted, and the
//! status of the reconciled object names it. Our own objects, and those handed over, are adopted.

use std::sync::Arc;

use aplomb::writer::{ApplyEffect, LiveObjects};
use aplomb::{Action, Context, Controller, Engine, ErrorClass, ObjectKey, Predicate};
use aplomb_simulation::faults::WatchFault;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use crate::bench::{Bench, MANAGER, config_map};
use crate::lab::{Answers, Lab, on_box, on_real, page, seconds, wait_until};
use crate::page::{self, Page};

/// Creates a config map as a user does.
async fn foreign_config_map(lab: &Lab, name: &str) -> Api<ConfigMap> {
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let parameters = PostParams {
        field_manager: Some("kubectl-create".to_owned()),
        ..PostParams::default()
    };
    maps.create(&parameters, &config_map(name, "theirs")).await.unwrap();
    maps
}

/// A bench whose cache shows new objects at once, or only after a minute.
async fn bench(lab: &Lab, seen: bool) -> Bench {
    match seen {
        true => Bench::start(lab).await,
        false => Bench::start_with(lab, WatchFault::Held(seconds(60))).await,
    }
}

async fn wait_for_cache(bench: &Bench, name: &str, seen: bool) {
    if seen {
        wait_until(seconds(5), "the cache shows it", || async { bench.map(name).is_some() }).await;
    }
}

/// A user's object has the name of a child.
async fn name_conflict(lab: Lab, seen: bool) {
    page(&lab).await;
    let bench = bench(&lab, seen).await;
    let maps = foreign_config_map(&lab, "child").await;
    wait_for_cache(&bench, "child", seen).await;
    let before = maps.get("child").await.unwrap();
    let pass = bench.pass(&bench.front());
    for known in [Some(&bench.maps as &dyn LiveObjects), None] {
        let error = pass.apply(&config_map("child", "ours"), known).await;
        let error = error.expect_err("the object belongs to another writer");
        assert_eq!(error.class(), ErrorClass::Exists, "{error}");
        let text = error.to_string();
        for part in ["ConfigMap default/child exists", "kubectl-create", "delete it"] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert_eq!(pass.prune::<ConfigMap>(&bench.maps).await.unwrap(), 0);
    assert_eq!(maps.get("child").await.unwrap(), before, "the object is unchanged");
}

/// A user's object has the name of a child in another namespace than its owner.
async fn name_conflict_across_namespaces(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    let mut child = config_map("child", "theirs");
    child.metadata.namespace = Some("kube-system".to_owned());
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "kube-system");
    maps.create(&PostParams::default(), &child).await.unwrap();
    let pass = bench.pass(&bench.front());
    let error = pass
        .apply(&child, None)
        .await
        .expect_err("the object belongs to a user");
    assert_eq!(error.class(), ErrorClass::Exists, "{error}");
    let text = error.to_string();
    assert!(text.contains("delete it or use another name"), "{text}");
    assert!(!text.contains("ownerReference"), "{text}");
}

#[test]
fn owner_reference_across_namespaces_is_not_advised() {
    on_box(1, name_conflict_across_namespaces);
}

#[test]
fn foreign_object_is_not_adopted() {
    on_box(1, |lab| name_conflict(lab, true));
    on_box(1, |lab| name_conflict(lab, false));
}

#[test]
#[ignore = "needs the real control plane"]
fn real_foreign_object_is_not_adopted() {
    on_real(|lab| name_conflict(lab, true));
    on_real(|lab| name_conflict(lab, false));
}

/// A child that the cache does not show, for instance because it lost the label that a watch selects by, is
/// still ours. Also counts the requests for a new child.
async fn unseen(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start_with(&lab, WatchFault::Held(seconds(600))).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let pass = bench.pass(&bench.front());
    pass.apply(&config_map("new", "1"), Some(&bench.maps)).await.unwrap();
    let answers = bench.answers.all();
    let about_it = answers.iter().filter(|it| it.path.ends_with("/new"));
    assert_eq!(about_it.count(), 1, "one request for a child");
    let mut owner = bench.front().controller_owner_ref(&()).unwrap();
    owner.block_owner_deletion = Some(true);
    let mut child = config_map("child", "1");
    child.metadata.owner_references = Some(vec![owner]);
    let parameters = PatchParams::apply(MANAGER).force();
    let mut body = serde_json::to_value(&child).unwrap();
    body["apiVersion"] = json!("v1");
    body["kind"] = json!("ConfigMap");
    maps.patch("child", &parameters, &Patch::Apply(body)).await.unwrap();
    let applied = pass.apply(&config_map("child", "1"), Some(&bench.maps)).await;
    assert_eq!(applied.unwrap().effect, ApplyEffect::Unchanged);
    let applied = pass.apply(&config_map("child", "2"), Some(&bench.maps)).await;
    assert_eq!(applied.unwrap().effect, ApplyEffect::Changed);
    assert_eq!(maps.get("child").await.unwrap().data.unwrap()["value"], "2");
}

#[test]
fn uncached_child_is_still_owned() {
    on_box(2, unseen);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_uncached_child_is_still_owned() {
    on_real(unseen);
}

/// Another page of the same controller has a child of that name.
async fn child_of_another_owner(lab: Lab, seen: bool) {
    let pages = page(&lab).await;
    let mut other = pages.get("front").await.unwrap();
    other.metadata = kube::core::ObjectMeta {
        name: Some("other".to_owned()),
        ..Default::default()
    };
    pages.create(&PostParams::default(), &other).await.unwrap();
    let bench = bench(&lab, true).await;
    let other = pages.get("other").await.unwrap();
    let mut child = config_map("child", "theirs");
    child.metadata.owner_references = other.controller_owner_ref(&()).map(|it| vec![it]);
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let parameters = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    maps.create(&parameters, &child).await.unwrap();
    wait_for_cache(&bench, "child", seen).await;
    let pass = bench.pass(&bench.front());
    let wanted = config_map("child", "ours");
    for known in [Some(&bench.maps as &dyn LiveObjects), None] {
        for error in [
            pass.apply(&wanted, known).await.unwrap_err(),
            pass.adopt(&wanted, known).await.unwrap_err(),
        ] {
            assert_eq!(error.class(), ErrorClass::Exists, "{error}");
            assert!(error.to_string().contains("controlled by Page other"), "{error}");
        }
    }
}

#[test]
fn child_of_another_owner_is_not_adopted() {
    on_box(3, |lab| child_of_another_owner(lab, true));
    on_box(3, |lab| child_of_another_owner(lab, false));
}

/// An object that the caller has checked is adopted; one that it has not seen is not.
async fn adopted(lab: Lab, seen: bool) -> Option<ErrorClass> {
    page(&lab).await;
    let bench = bench(&lab, seen).await;
    let maps = foreign_config_map(&lab, "child").await;
    wait_for_cache(&bench, "child", seen).await;
    let pass = bench.pass(&bench.front());
    let wanted = config_map("child", "ours");
    let done = pass.adopt(&wanted, Some(&bench.maps)).await;
    let map = maps.get("child").await.unwrap();
    assert_eq!(map.owner_references().len(), usize::from(done.is_ok()));
    done.err().map(|error| error.class())
}

#[test]
fn adopt_takes_a_cached_object() {
    assert_eq!(on_box(4, |lab| adopted(lab, true)), None);
    assert_eq!(on_box(4, |lab| adopted(lab, false)), Some(ErrorClass::Exists));
}

/// An object with the page among its owners was handed over.
async fn handed_over(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    bench.make_foreign(&lab, "child").await;
    wait_for_cache(&bench, "child", true).await;
    let pass = bench.pass(&bench.front());
    let wanted = config_map("child", "ours");
    let applied = pass.apply(&wanted, Some(&bench.maps)).await;
    assert_eq!(applied.unwrap().effect, ApplyEffect::Changed);
}

#[test]
fn an_object_is_handed_over_by_an_owner_reference() {
    on_box(5, handed_over);
}

/// A page is deleted without its child and recreated: it adopts the child again.
async fn orphan_reclaimed(lab: Lab) {
    let pages = page(&lab).await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let front = pages.get("front").await.unwrap();
    let engine = page::operator(lab.client("operator").0);
    let scenario = async {
        wait_until(seconds(10), "there is a child", || async {
            maps.get_opt("front").await.unwrap().is_some()
        })
        .await;
        let orphan = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        pages.delete("front", &orphan).await.unwrap();
        let again = Page::new("front", front.spec.clone());
        wait_until(seconds(20), "the name is free", || async {
            pages.create(&PostParams::default(), &again).await.is_ok()
        })
        .await;
        let uid = pages.get("front").await.unwrap().uid();
        wait_until(seconds(20), "the child is adopted again", || async {
            let child = maps.get("front").await.unwrap();
            child.owner_references().first().map(|it| it.uid.clone()) == uid
        })
        .await;
    };
    tokio::select! { biased;
        () = scenario => {}
        ended = engine.run(std::future::pending()) => panic!("the operator ended: {ended:?}"),
    }
}

#[test]
fn orphaned_child_is_reclaimed() {
    on_box(6, orphan_reclaimed);
}

#[test]
#[ignore = "needs the real control plane"]
fn real_orphaned_child_is_reclaimed() {
    on_real(orphan_reclaimed);
}

/// A user keeps a copy of a child, including its owner reference. Pruning keeps it.
async fn copied(lab: Lab) {
    page(&lab).await;
    let bench = Bench::start(&lab).await;
    let pass = bench.pass(&bench.front());
    pass.apply(&config_map("child", "1"), Some(&bench.maps)).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(lab.user(), "default");
    let mut copy = maps.get("child").await.unwrap();
    copy.metadata = kube::core::ObjectMeta {
        name: Some("copy".to_owned()),
        owner_references: copy.metadata.owner_references,
        ..Default::default()
    };
    maps.create(&PostParams::default(), &copy).await.unwrap();
    wait_for_cache(&bench, "copy", true).await;
    let pass = bench.pass(&bench.front());
    assert_eq!(pass.prune::<ConfigMap>(&bench.maps).await.unwrap(), 1);
    assert!(maps.get_opt("child").await.unwrap().is_none());
    assert!(maps.get_opt("copy").await.unwrap().is_some());
}

#[test]
fn foreign_copy_is_not_pruned() {
    on_box(7, copied);
}

/// A user's object has the name of a child that is to be deleted. It is kept, unless the caller intends
/// to delete it; a child is deleted, and so is the page itself.
async fn deleted_by_name(lab: Lab, seen: bool) {
    let pages = page(&lab).await;
    let bench = bench(&lab, seen).await;
    let maps = foreign_config_map(&lab, "child").await;
    wait_for_cache(&bench, "child", seen).await;
    let pass = bench.pass(&bench.front());
    let key = |name: &str| ObjectKey::new(Some("default"), name);
    for known in [Some(&bench.maps as &dyn LiveObjects), None] {
        let done = pass.delete::<ConfigMap>(&key("child"), known).await;
        done.unwrap();
        assert!(bench.answers.writes().is_empty());
        let there = maps.get_opt("child").await.unwrap();
        assert!(there.is_some(), "the object belongs to a user");
    }
    pass.delete_unowned::<ConfigMap>(&key("child"), None).await.unwrap();
    assert!(maps.get_opt("child").await.unwrap().is_none());
    pass.apply(&config_map("mine", "1"), Some(&bench.maps)).await.unwrap();
    pass.delete::<ConfigMap>(&key("mine"), Some(&bench.maps)).await.unwrap();
    assert!(maps.get_opt("mine").await.unwrap().is_none());
    pass.delete::<Page>(&bench.key, None).await.unwrap();
    assert!(pages.get_opt("front").await.unwrap().is_none());
}

#[test]
fn foreign_object_with_the_name_of_a_deleted_child_is_kept() {
    on_box(10, |lab| deleted_by_name(lab, true));
    on_box(10, |lab| deleted_by_name(lab, false));
}

/// The README's operator meets a config map with the page's name: its status, and the number of its writes.
async fn name_conflict_reported(lab: Lab) {
    let maps = foreign_config_map(&lab, "front").await;
    let pages = page(&lab).await;
    let answers = Answers::default();
    let client = answers.for_client(&lab.client("operator").0);
    let scenario = async {
        wait_until(seconds(10), "the status of the page shows it", || async {
            stalled(&pages).await.is_some()
        })
        .await;
        sleep(seconds(600)).await;
        let message = stalled(&pages).await.unwrap();
        assert!(message.contains("ConfigMap default/front exists"), "{message}");
        let events: Api<Event> = Api::namespaced(lab.user(), "default");
        let events = events.list(&ListParams::default()).await.unwrap();
        let said = |it: &&Event| it.reason.as_deref() == Some("AlreadyExists");
        assert_eq!(events.iter().filter(said).count(), 1);
        let writes = answers.writes();
        assert_eq!(writes.len(), 1, "its status, once: {writes:?}");
        assert_eq!(maps.get("front").await.unwrap().data.unwrap()["value"], "theirs");
        maps.delete("front", &DeleteParams::default()).await.unwrap();
        wait_until(seconds(70), "the page gets its child", || async {
            stalled(&pages).await.is_none()
        })
        .await;
    };
    tokio::select! { biased;
        () = scenario => {}
        ended = page::operator(client).run(std::future::pending()) => panic!("it ended: {ended:?}"),
    }
}

/// The message of `Stalled` for a name that is taken.
async fn stalled(pages: &Api<Page>) -> Option<String> {
    let status = pages.get("front").await.unwrap().status?;
    let mut conditions = status.conditions.into_iter();
    let stalled = conditions.find(|it| it.type_ == "Stalled" && it.reason == "AlreadyExists")?;
    Some(stalled.message)
}

#[test]
fn taken_name_is_reported_once_and_not_retried_hot() {
    on_box(8, name_conflict_reported);
}

/// The same if the cache never shows the object: each attempt costs a rejected write and a read.
#[test]
fn uncached_taken_name_is_not_retried_hot() {
    let tries = on_box(9, |lab| async move {
        foreign_config_map(&lab, "front").await;
        page(&lab).await;
        let answers = Answers::default();
        let client = answers.for_client(&lab.client("operator").0);
        let blind = |_: Arc<Page>, cx: Context<Page>| async move {
            let nobody = config_map("front", "ours");
            cx.apply(nobody).await.map(|_| Action::Done)
        };
        let selected = aplomb::Scope {
            labels: Some("app=other".to_owned()),
            ..aplomb::Scope::default()
        };
        let controller = Controller::new("page", blind).owns_in::<ConfigMap>(selected, Predicate::always());
        let engine = Engine::new("pages", client).controller(controller);
        tokio::select! { biased;
            () = sleep(seconds(600)) => {}
            ended = engine.run(std::future::pending()) => panic!("it ended: {ended:?}"),
        }
        answers.conflicts()
    });
    assert!((2..40).contains(&tries), "{tries}");
}
