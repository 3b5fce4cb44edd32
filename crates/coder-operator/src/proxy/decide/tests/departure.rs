//! The way out.

use serde_json::{Value, json};

use super::scene::*;
use aplomb_api::coder::{RetiringProxy, conditions as kinds};

use crate::access::AccessDenied;
use crate::client::CallErrorClass;
use crate::ending::End;
use crate::proxy::world::Observed;
use crate::seen::DeploymentState;

fn leaving(change: Value) -> Observed {
    let mut world = settled(change);
    let object = std::sync::Arc::make_mut(&mut world.object);
    object.metadata.deletion_timestamp = Some(ago(10));
    world
}

fn drained(mut world: Observed) -> Observed {
    world.deployment = Some(DeploymentState::default());
    world
}

/// The registration in use, once it is to be taken back.
fn registered() -> RetiringProxy {
    let mut old = retiring(ID, 0);
    old.name = "europe".to_owned();
    old
}

/// A registration at another server than today's.
fn elsewhere() -> RetiringProxy {
    let mut old = retiring("id-0", 10);
    old.binding = binding(OTHER);
    old
}

/// Deleted longer ago than a server is waited for.
fn late(mut world: Observed) -> Observed {
    let object = std::sync::Arc::make_mut(&mut world.object);
    object.metadata.deletion_timestamp = Some(ago(86_400));
    world
}

#[test]
fn pods_stop_first_then_the_registration_goes_then_the_object() {
    let world = leaving(json!({}));
    assert_eq!(step(&world), "drain");
    let mut world = drained(world);
    assert_eq!(step(&world), "deregister");
    world.seen.deleted = vec![ID.to_owned()];
    assert_eq!(step(&world), "release");
}

#[test]
fn the_server_is_waited_for() {
    for class in [
        CallErrorClass::Limited,
        CallErrorClass::Server,
        CallErrorClass::NoAnswer,
    ] {
        let mut world = drained(leaving(json!({})));
        world.seen.undone = vec![(registered(), refused(class))];
        let told = plan(&world);
        assert!(told.step.is_none(), "{class:?}");
        assert_eq!(told.status.retiring.len(), 1, "{class:?}");
    }
}

#[test]
fn old_registrations_go_too() {
    let mut world = drained(leaving(json!({})));
    world.status.retiring = vec![retiring("id-0", 10)];
    world.seen.deleted = vec![ID.to_owned()];
    assert_eq!(step(&world), "deregister");
    world.seen.deleted.push("id-0".to_owned());
    assert_eq!(step(&world), "release");
}

#[test]
fn a_name_that_may_have_been_registered_is_looked_for() {
    let mut world = drained(leaving(json!({})));
    world.seen.deleted = vec![ID.to_owned()];
    world.status.pending = Some(pending("asia", 60));
    assert_eq!(step(&world), "look");
    shows(&mut world, URL, "asia", None);
    assert_eq!(step(&world), "release");
    shows(&mut world, URL, "asia", Some(proxy("x", "asia", 600)));
    assert_eq!(step(&world), "release");
    shows(&mut world, URL, "asia", Some(proxy("id-2", "asia", 58)));
    assert_eq!(step(&world), "deregister");
    world.memory.unasked = Some("asia".to_owned());
    assert_eq!(step(&world), "release");
}

#[test]
fn without_the_token_it_waits_for_the_deadline_or_for_a_word() {
    let mut world = drained(leaving(json!({})));
    world.bound.clear();
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "Deleting"));
    assert!(matches!(told.end, End::Again(_)), "{:?}", told.end);
    let object = std::sync::Arc::make_mut(&mut world.object);
    object.metadata.deletion_timestamp = Some(ago(86_400));
    let told = plan(&world);
    assert_eq!((step(&world), told.orphans.len()), ("release", 1));
    let abandon = json!({ "metadata": { "annotations": { "coder.aplomb.dev/abandon": "true" } } });
    let told = plan(&leaving(abandon));
    assert_eq!(told.orphans, [(URL.to_owned(), "europe".to_owned())]);
    assert_eq!(notes(&told), ["ProxyOrphaned"]);
}

#[test]
fn pods_that_cannot_be_stopped_are_waited_for_until_the_deadline() {
    assert_eq!(step(&late(leaving(json!({})))), "deregister");
}

/// Its icon need not bear the mark.
#[test]
fn a_proxy_whose_id_was_answered_is_taken_back() {
    let mut world = drained(leaving(json!({})));
    world.seen.deleted = vec![ID.to_owned()];
    world.status.pending = Some(pending("asia", 60));
    let mut made = proxy("id-2", "asia", 58);
    made.icon = "https://example.com/icon.svg#v2".to_owned();
    shows(&mut world, URL, "asia", Some(made));
    assert_eq!(step(&world), "release");
    world.memory.in_hand = Some("id-2".to_owned());
    assert_eq!(step(&world), "deregister");
}

#[test]
fn an_object_that_was_never_registered_goes_at_once() {
    let mut world = world(object(json!({})));
    let object = std::sync::Arc::make_mut(&mut world.object);
    object.metadata.deletion_timestamp = Some(ago(1));
    assert_eq!(step(&world), "release");
}

#[test]
fn one_that_cannot_be_reached_holds_up_no_other() {
    let mut world = drained(leaving(json!({})));
    world.status.retiring = vec![elsewhere()];
    world.seen.undone = vec![(elsewhere(), refused(CallErrorClass::NoAnswer))];
    assert_eq!(step(&world), "deregister");
    world.seen.deleted = vec![ID.to_owned()];
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.status.retiring, [elsewhere()]);
    // Nor does a name that cannot be looked for.
    world.seen.deleted.clear();
    world.seen.undone.clear();
    world.status.retiring.clear();
    world.status.pending = Some(pending("asia", 60));
    hinders(&mut world, URL, "asia", refused(CallErrorClass::Server));
    assert_eq!(step(&world), "deregister");
}

#[test]
fn trouble_at_a_former_server_is_not_todays_when_it_goes() {
    let mut world = drained(leaving(json!({})));
    world.status.retiring = vec![elsewhere()];
    world.seen.deleted = vec![ID.to_owned()];
    world.seen.undone = vec![(elsewhere(), refused(CallErrorClass::Token))];
    let told = plan(&world);
    let access = says(&told, kinds::OPERATOR_ACCESS_READY);
    assert_eq!(access.0, "True");
    assert_eq!(ready(&told), pair("False", "Deleting"));
    assert_eq!(told.end, End::Again(std::time::Duration::from_secs(60)));
}

#[test]
fn what_can_be_reached_is_not_left_behind_after_the_deadline() {
    let mut world = late(drained(leaving(json!({}))));
    world.status.retiring = vec![elsewhere()];
    assert_eq!(step(&world), "deregister");
    // Its turn comes: the server is there.
    world.seen.undone = vec![(registered(), later(false))];
    assert_eq!(step(&world), "deregister");
    world
        .seen
        .undone
        .push((elsewhere(), refused(CallErrorClass::NoAnswer)));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.orphans, [(OTHER.to_owned(), "old".to_owned())]);
    assert_eq!(told.status.retiring.len(), 1);
    world.seen.deleted = vec![ID.to_owned()];
    assert_eq!(step(&world), "release");
}

#[test]
fn a_name_that_nobody_can_look_for_is_reported_after_the_deadline() {
    let mut world = drained(leaving(json!({})));
    world.seen.deleted = vec![ID.to_owned()];
    world.status.pending = Some(pending("asia", 60));
    hinders(&mut world, URL, "asia", refused(CallErrorClass::NoAnswer));
    assert_eq!(step(&world), "none");
    let told = plan(&late(world));
    assert_eq!(told.orphans, [(URL.to_owned(), "asia".to_owned())]);
}

/// The token is kept, and the server is gone: it was in the namespace too.
#[test]
fn a_server_that_goes_with_its_namespace_is_named_with_the_way_out() {
    let mut world = drained(leaving(json!({})));
    world.access = Some(Err(AccessDenied {
        no_server: true,
        reason: "ControlPlaneUnavailable",
        message: "CoderControlPlane does not exist".to_owned(),
    }));
    world.seen.undone = vec![(registered(), refused(CallErrorClass::NoAnswer))];
    let told = plan(&world);
    assert!(told.step.is_none(), "{:?}", told.step);
    assert_eq!(ready(&told), pair("False", "Deleting"));
    let found = told.conditions.iter().find(|it| it.kind == "Ready");
    let said = &found.expect("Ready").message;
    assert!(
        said.starts_with("cannot delete proxy europe at https://coder.example.com"),
        "{said}"
    );
    let command = "kubectl annotate cwp -n dev europe coder.aplomb.dev/abandon=true";
    assert!(said.ends_with(command), "{said}");
}
