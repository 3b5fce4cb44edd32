//! The way out.

use serde_json::{Value, json};

use super::fixture::*;
use aplomb_api::coder::{RetiringProxy, conditions as kinds};

use crate::access::AccessDenied;
use crate::blocked::End;
use crate::children_state::DeploymentState;
use crate::client::CallErrorClass;
use crate::workspace_proxy::Observed;

fn deleting(change: Value) -> Observed {
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
fn at_former_server() -> RetiringProxy {
    let mut old = retiring("id-0", 10);
    old.binding = binding(OTHER);
    old
}

/// Deleted longer ago than a server is waited for.
fn past_deadline(mut world: Observed) -> Observed {
    let object = std::sync::Arc::make_mut(&mut world.object);
    object.metadata.deletion_timestamp = Some(ago(86_400));
    world
}

#[test]
fn pods_stop_first_then_the_registration_goes_then_the_object() {
    let world = deleting(json!({}));
    assert_eq!(step(&world), "drain");
    let mut world = drained(world);
    assert_eq!(step(&world), "deregister");
    world.progress.deleted = vec![ID.to_owned()];
    assert_eq!(step(&world), "release");
}

#[test]
fn the_server_is_waited_for() {
    for class in [
        CallErrorClass::Limited,
        CallErrorClass::Server,
        CallErrorClass::NoAnswer,
    ] {
        let mut world = drained(deleting(json!({})));
        world.progress.deregister_blocked = vec![(registered(), refused_call(class))];
        let told = plan(&world);
        assert!(told.step.is_none(), "{class:?}");
        assert_eq!(told.status.retiring.len(), 1, "{class:?}");
    }
}

#[test]
fn old_registrations_go_too() {
    let mut world = drained(deleting(json!({})));
    world.status.retiring = vec![retiring("id-0", 10)];
    world.progress.deleted = vec![ID.to_owned()];
    assert_eq!(step(&world), "deregister");
    world.progress.deleted.push("id-0".to_owned());
    assert_eq!(step(&world), "release");
}

#[test]
fn a_name_that_may_have_been_registered_is_looked_for() {
    let mut world = drained(deleting(json!({})));
    world.progress.deleted = vec![ID.to_owned()];
    world.status.pending = Some(pending("asia", 60));
    assert_eq!(step(&world), "look");
    set_found(&mut world, URL, "asia", None);
    assert_eq!(step(&world), "release");
    set_found(&mut world, URL, "asia", Some(proxy("x", "asia", 600)));
    assert_eq!(step(&world), "release");
    set_found(&mut world, URL, "asia", Some(proxy("id-2", "asia", 58)));
    assert_eq!(step(&world), "deregister");
    world.remembered.unrequested_name = Some("asia".to_owned());
    assert_eq!(step(&world), "release");
}

#[test]
fn without_the_token_it_waits_for_the_deadline_or_the_annotation() {
    let mut world = drained(deleting(json!({})));
    world.bound_scopes.clear();
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "Deleting"));
    assert!(matches!(told.end, End::RequeueAfter(_)), "{:?}", told.end);
    let object = std::sync::Arc::make_mut(&mut world.object);
    object.metadata.deletion_timestamp = Some(ago(86_400));
    let told = plan(&world);
    assert_eq!((step(&world), told.orphans.len()), ("release", 1));
    let abandon = json!({ "metadata": { "annotations": { "coder.aplomb.dev/abandon": "true" } } });
    let told = plan(&deleting(abandon));
    assert_eq!(told.orphans, [(URL.to_owned(), "europe".to_owned())]);
    assert_eq!(notes(&told), ["ProxyOrphaned"]);
}

#[test]
fn pods_that_cannot_be_stopped_are_waited_for_until_the_deadline() {
    assert_eq!(step(&past_deadline(deleting(json!({})))), "deregister");
}

/// Its icon need not bear the mark.
#[test]
fn a_proxy_whose_id_was_answered_is_taken_back() {
    let mut world = drained(deleting(json!({})));
    world.progress.deleted = vec![ID.to_owned()];
    world.status.pending = Some(pending("asia", 60));
    let mut made = proxy("id-2", "asia", 58);
    made.icon = "https://example.com/icon.svg#v2".to_owned();
    set_found(&mut world, URL, "asia", Some(made));
    assert_eq!(step(&world), "release");
    world.remembered.unsaved_key = Some("id-2".to_owned());
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
    let mut world = drained(deleting(json!({})));
    world.status.retiring = vec![at_former_server()];
    world.progress.deregister_blocked = vec![(at_former_server(), refused_call(CallErrorClass::NoAnswer))];
    assert_eq!(step(&world), "deregister");
    world.progress.deleted = vec![ID.to_owned()];
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.status.retiring, [at_former_server()]);
    // Nor does a name that cannot be looked for.
    world.progress.deleted.clear();
    world.progress.deregister_blocked.clear();
    world.status.retiring.clear();
    world.status.pending = Some(pending("asia", 60));
    set_blocked(&mut world, URL, "asia", refused_call(CallErrorClass::Server));
    assert_eq!(step(&world), "deregister");
}

#[test]
fn trouble_at_a_former_server_is_not_todays_when_it_goes() {
    let mut world = drained(deleting(json!({})));
    world.status.retiring = vec![at_former_server()];
    world.progress.deleted = vec![ID.to_owned()];
    world.progress.deregister_blocked = vec![(at_former_server(), refused_call(CallErrorClass::Token))];
    let told = plan(&world);
    let access = condition(&told, kinds::OPERATOR_ACCESS_READY);
    assert_eq!(access.0, "True");
    assert_eq!(ready(&told), pair("False", "Deleting"));
    assert_eq!(told.end, End::RequeueAfter(std::time::Duration::from_secs(60)));
}

#[test]
fn what_can_be_reached_is_not_left_behind_after_the_deadline() {
    let mut world = past_deadline(drained(deleting(json!({}))));
    world.status.retiring = vec![at_former_server()];
    assert_eq!(step(&world), "deregister");
    // Its turn comes: the server is there.
    world.progress.deregister_blocked = vec![(registered(), deferred_call(false))];
    assert_eq!(step(&world), "deregister");
    world
        .progress
        .deregister_blocked
        .push((at_former_server(), refused_call(CallErrorClass::NoAnswer)));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.orphans, [(OTHER.to_owned(), "old".to_owned())]);
    assert_eq!(told.status.retiring.len(), 1);
    world.progress.deleted = vec![ID.to_owned()];
    assert_eq!(step(&world), "release");
}

#[test]
fn a_name_that_cannot_be_looked_up_is_reported_after_the_deadline() {
    let mut world = drained(deleting(json!({})));
    world.progress.deleted = vec![ID.to_owned()];
    world.status.pending = Some(pending("asia", 60));
    set_blocked(&mut world, URL, "asia", refused_call(CallErrorClass::NoAnswer));
    assert_eq!(step(&world), "none");
    let told = plan(&past_deadline(world));
    assert_eq!(told.orphans, [(URL.to_owned(), "asia".to_owned())]);
}

/// The token is kept, and the server is gone: it was in the namespace too.
#[test]
fn a_server_that_goes_with_its_namespace_is_named_with_the_way_out() {
    let mut world = drained(deleting(json!({})));
    world.access = Some(Err(AccessDenied {
        server_missing: true,
        reason: "ControlPlaneUnavailable",
        message: "CoderControlPlane does not exist".to_owned(),
    }));
    world.progress.deregister_blocked = vec![(registered(), refused_call(CallErrorClass::NoAnswer))];
    let told = plan(&world);
    assert!(told.step.is_none(), "{:?}", told.step);
    assert_eq!(ready(&told), pair("False", "Deleting"));
    let found = told.conditions.iter().find(|it| it.type_ == "Ready");
    let said = &found.expect("Ready").message;
    assert!(
        said.starts_with("cannot delete proxy europe at https://coder.example.com"),
        "{said}"
    );
    let command = "kubectl annotate cwp -n dev europe coder.aplomb.dev/abandon=true";
    assert!(said.ends_with(command), "{said}");
}
