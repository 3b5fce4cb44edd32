//! What is in use stays so, or is replaced: by another token, name, look or server.

use std::sync::Arc;
use std::time::Duration;

use aplomb_api::coder::conditions as kinds;
use serde_json::json;

use super::fixture::*;
use crate::blocked::End;
use crate::children_state::{DeploymentState, SecretState};
use crate::client::CallErrorClass;
use crate::workspace_proxy::Observed;

const ROTATE: &str = "coder.aplomb.dev/rotate";

#[test]
fn a_proxy_that_serves_is_ready_and_nothing_is_done() {
    let told = plan(&settled(json!({})));
    assert!(told.step.is_none(), "{:?}", told.step);
    assert_eq!(ready(&told), pair("True", "Proven"));
    assert_eq!(told.status.phase.as_deref(), Some("Ready"));
    let secret = told.status.proxy_token_secret_ref.expect("a Secret");
    assert_eq!(secret.name, "europe-proxy-token");
    assert_eq!(told.end, End::RequeueAfter(super::super::STEADY_MAX_AGE));
}

#[test]
fn health_comes_from_the_server_unless_no_pods_are_desired() {
    let mut world = settled(json!({}));
    let mut sick = proxy(ID, "europe", 3600);
    sick.status = None;
    set_found(&mut world, URL, ID, Some(sick.clone()));
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "Unhealthy"));
    assert_eq!(told.end, End::RequeueAfter(super::super::WAITING_MAX_AGE));
    let mut none = settled(json!({ "spec": { "replicas": 0 } }));
    set_found(&mut none, URL, ID, Some(sick));
    assert_eq!(ready(&plan(&none)), pair("True", "Proven"));
}

#[test]
fn a_lost_secret_brings_a_new_token() {
    let mut world = settled(json!({}));
    world.secret = SecretState::Absent;
    record_pending(&mut world);
    assert_eq!(step(&world), "retoken");
    world.secret = SecretState::Owned {
        key_name: Some(ID.to_owned()),
        intact: false,
    };
    assert_eq!(step(&world), "retoken");
    world.remembered.unsaved_key = Some(ID.to_owned());
    assert_eq!(step(&world), "store");
    let told = plan(&world);
    let secret = condition(&told, kinds::TOKEN_SECRET_READY);
    assert_eq!(secret, pair("False", "SecretPending"));
    assert_eq!(condition(&told, kinds::REGISTERED), pair("True", "Registered"));
}

#[test]
fn a_new_value_of_the_annotation_brings_one_new_token() {
    let mut world = settled(json!({ "metadata": { "annotations": { ROTATE: "2" } } }));
    world.status.rotation.honoured = Some("1".to_owned());
    record_pending(&mut world);
    assert_eq!(world.status.rotation.asked.as_deref(), Some("2"));
    assert_eq!(world.status.rotation.honoured.as_deref(), Some("1"));
    assert_eq!(step(&world), "retoken");
    world.progress.token_stored = Some(ID.to_owned());
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.status.rotation.honoured.as_deref(), Some("2"));
    assert_eq!(told.status.rotation.asked, None);
    assert_eq!(notes(&told), ["TokenRotated"]);
}

/// Has the pass that writes down that a token is asked for, before it is.
fn record_pending(world: &mut Observed) {
    let told = plan(world);
    assert!(told.step.is_none(), "{:?}", told.step);
    assert_eq!(told.end, End::RequeueAfter(Duration::ZERO));
    world.status = told.status;
}

#[test]
fn a_token_that_may_have_been_made_is_requested_until_it_is_in_the_secret() {
    let mut world = settled(json!({ "metadata": { "annotations": { ROTATE: "2" } } }));
    record_pending(&mut world);
    world.progress.blocked = Some(refused_call(CallErrorClass::NoAnswer));
    world.status = plan(&world).status;
    // The wish is taken back, or the Secret put back: neither tells whether the token still holds.
    world.object = Arc::new(object(json!({})));
    world.progress.blocked = None;
    assert_eq!(step(&world), "retoken");
    world.progress.token_stored = Some(ID.to_owned());
    let told = plan(&world);
    assert_eq!((step(&world), told.status.rotation.asked), ("none", None));
    assert_eq!(told.status.rotation.honoured.as_deref(), Some("2"));
}

#[test]
fn a_secret_that_was_put_back_after_its_token_was_requested_is_not_trusted() {
    let mut world = settled(json!({}));
    world.secret = SecretState::Absent;
    record_pending(&mut world);
    world.secret = secret_holding(ID);
    assert_eq!(step(&world), "retoken");
    world.progress.token_stored = Some(ID.to_owned());
    let told = plan(&world).status.rotation;
    assert_eq!((told.asked, told.honoured), (None, None));
}

#[test]
fn a_refused_and_withdrawn_rotation_stops_nothing() {
    let mut world = settled(json!({ "metadata": { "annotations": { ROTATE: "2" } } }));
    record_pending(&mut world);
    world.progress.blocked = Some(refused_call(CallErrorClass::Forbidden));
    assert!(matches!(plan(&world).end, End::Rejected { .. }));
    world.object = Arc::new(object(json!({})));
    assert_eq!(ready(&plan(&world)), pair("True", "Proven"));
}

#[test]
fn a_display_change_is_sent_without_a_new_token() {
    let mut world = settled(json!({ "spec": { "bootstrap": { "icon": "/emojis/1f30d.png" } } }));
    assert_eq!(step(&world), "describe");
    world.progress.display_sent = true;
    assert_eq!(step(&world), "none");
}

#[test]
fn another_name_is_registered_before_the_old_one_goes() {
    let mut world = settled(json!({ "spec": { "bootstrap": { "proxyName": "asia" } } }));
    assert_eq!(step(&world), "look");
    set_found(&mut world, URL, "asia", None);
    let told = plan(&world).status;
    assert_eq!(told.pending.map(|it| it.name).as_deref(), Some("asia"));
    assert_eq!(told.proxy_id.as_deref(), Some(ID));
    world.status.pending = Some(pending("asia", 0));
    world.progress.token_stored = Some("id-2".to_owned());
    world.progress.applied = false;
    set_found(&mut world, URL, "id-2", Some(proxy("id-2", "asia", 0)));
    assert_eq!(step(&world), "apply");
    let told = plan(&world).status;
    assert_eq!(told.proxy_id.as_deref(), Some("id-2"));
    assert_eq!(told.retiring[0].id, ID);
}

#[test]
fn a_name_of_another_owner_leaves_the_old_one_in_use() {
    let mut world = settled(json!({ "spec": { "bootstrap": { "proxyName": "asia" } } }));
    set_found(&mut world, URL, "asia", Some(proxy("x", "asia", 60)));
    let told = plan(&world);
    assert_eq!(told.status.proxy_id.as_deref(), Some(ID));
    assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
    assert_eq!(condition(&told, kinds::REGISTERED), pair("True", "Registered"));
}

#[test]
fn going_back_takes_over_what_is_not_gone_yet() {
    let mut world = settled(json!({ "spec": { "bootstrap": { "proxyName": "asia" } } }));
    world.status.retiring = vec![retiring("id-0", 10)];
    set_found(&mut world, URL, "asia", Some(proxy("id-0", "asia", 60)));
    let told = plan(&world).status;
    assert_eq!(told.proxy_id.as_deref(), Some("id-0"));
    assert_eq!(told.retiring.len(), 1);
    assert_eq!(told.retiring[0].id, ID);
}

#[test]
fn another_server_is_registered_at_unless_it_is_the_same_one() {
    let mut world = settled(json!({}));
    world.access = Some(Ok(access(OTHER)));
    assert_eq!(step(&world), "look");
    set_found(&mut world, OTHER, ID, Some(proxy(ID, "europe", 3600)));
    let same = plan(&world).status;
    assert_eq!(same.binding, Some(binding(OTHER)));
    assert!(same.pending.is_none());
    set_found(&mut world, OTHER, ID, None);
    set_found(&mut world, OTHER, "europe", None);
    let pending = plan(&world).status.pending.expect("a name");
    assert_eq!(pending.binding, binding(OTHER));
}

#[test]
fn a_new_token_of_the_operator_speaks_for_what_is_registered() {
    let mut world = settled(json!({}));
    let mut fresh = access(URL);
    fresh.binding.token_fingerprint = "other".to_owned();
    world.access = Some(Ok(fresh.clone()));
    let told = plan(&world);
    assert_eq!(told.status.binding, Some(fresh.binding));
}

#[test]
fn one_that_vanished_is_registered_again_and_kept_in_mind() {
    let mut world = settled(json!({}));
    set_found(&mut world, URL, ID, None);
    assert_eq!(step(&world), "look");
    set_found(&mut world, URL, "europe", None);
    let told = plan(&world);
    assert_eq!(notes(&told), ["ProxyVanished"]);
    assert!(told.status.proxy_id.is_none());
    assert_eq!(told.status.retiring[0].id, ID);
    // The answer was odd: by its name it is there.
    world.status = told.status;
    set_found(&mut world, URL, "europe", Some(proxy(ID, "europe", 3600)));
    assert_eq!(plan(&world).status.proxy_id.as_deref(), Some(ID));
}

#[test]
fn one_that_is_known_by_its_name_alone_stays_in_use() {
    let mut world = settled(json!({}));
    set_found(&mut world, URL, ID, None);
    set_found(&mut world, URL, "europe", Some(proxy(ID, "europe", 3600)));
    let told = plan(&world);
    assert_eq!(told.status.proxy_id.as_deref(), Some(ID));
    assert!(told.notes.is_empty() && told.status.retiring.is_empty());
    assert_eq!(told.end, End::RequeueAfter(super::super::WAITING_MAX_AGE));
    // Nor does a Secret that is lost make it turn in circles.
    world.secret = SecretState::Absent;
    record_pending(&mut world);
    assert_eq!(step(&world), "retoken");
    world.progress.blocked = Some(refused_call(CallErrorClass::Missing));
    let told = plan(&world);
    assert_eq!(told.end, End::RequeueAfter(super::super::WAITING_MAX_AGE));
    assert_eq!(told.status.proxy_id.as_deref(), Some(ID));
    // What cannot be looked for is not taken for gone.
    let mut world = settled(json!({}));
    set_found(&mut world, URL, ID, None);
    set_blocked(&mut world, URL, "europe", refused_call(CallErrorClass::Server));
    assert_eq!(plan(&world).status.proxy_id.as_deref(), Some(ID));
}

#[test]
fn an_old_registration_goes_when_the_new_one_serves() {
    let mut world = settled(json!({}));
    world.status.retiring = vec![retiring("id-0", 10)];
    assert_eq!(step(&world), "deregister");
    world.deployment = Some(DeploymentState {
        replicas: 2,
        ready: 2,
        rolled: false,
    });
    assert_eq!(step(&world), "none");
    world.status.retiring = vec![retiring("id-0", 400)];
    assert_eq!(step(&world), "deregister");
    let mut sick = proxy(ID, "europe", 60);
    sick.status = None;
    set_found(&mut world, URL, ID, Some(sick));
    assert_eq!(step(&world), "none");
}

#[test]
fn an_old_registration_that_cannot_be_reached_is_waited_for_and_then_reported() {
    let mut world = settled(json!({}));
    world.status.retiring = vec![retiring("id-0", 10)];
    world.status.retiring[0].binding = binding("https://gone.example.com");
    let told = plan(&world);
    assert_eq!((told.status.retiring.len(), told.orphans.len()), (1, 0));
    world.status.retiring[0].retired = ago(86_400);
    let told = plan(&world);
    assert_eq!((told.status.retiring.len(), told.orphans.len()), (0, 1));
    assert_eq!(notes(&told), ["ProxyOrphaned"]);
}

#[test]
fn an_old_registration_that_is_hindered_holds_up_no_other() {
    let mut world = settled(json!({}));
    let mut first = retiring("id-0", 10);
    first.binding = binding(OTHER);
    world.status.retiring = vec![first.clone(), retiring("id-2", 10)];
    world.progress.deregister_blocked = vec![(first.clone(), refused_call(CallErrorClass::Token))];
    assert_eq!(step(&world), "deregister");
    world.progress.deleted = vec!["id-2".to_owned()];
    let told = plan(&world);
    assert_eq!(told.status.retiring, [first]);
    // And what a former server refuses is not said of today's.
    let access = condition(&told, kinds::OPERATOR_ACCESS_READY);
    assert_eq!(access.0, "True");
    assert_eq!(ready(&told), pair("True", "Proven"));
    assert_eq!(told.end, End::RequeueAfter(Duration::from_secs(60)));
}

#[test]
fn an_old_registration_is_tried_before_it_is_left_behind() {
    let mut world = settled(json!({}));
    world.status.retiring = vec![retiring("id-0", 86_400)];
    assert_eq!(step(&world), "deregister");
    let old = world.status.retiring[0].clone();
    world.progress.deregister_blocked = vec![(old.clone(), deferred_call(false))];
    assert!(plan(&world).orphans.is_empty());
    world.progress.deregister_blocked = vec![(old, refused_call(CallErrorClass::Server))];
    assert_eq!(plan(&world).orphans.len(), 1);
}

#[test]
fn a_former_server_that_does_not_answer_does_not_bar_the_way_to_todays() {
    let mut world = world(object(json!({})));
    let mut asked = pending("europe", 10);
    asked.binding = binding(OTHER);
    world.status.pending = Some(asked);
    set_blocked(&mut world, OTHER, "europe", refused_call(CallErrorClass::NoAnswer));
    let told = plan(&world);
    assert_eq!(condition(&told, kinds::CONTROL_PLANE_READY).0, "True");
    assert_eq!(ready(&told), pair("False", "NotRegistered"));
    assert_eq!(told.end, End::RequeueAfter(Duration::from_secs(60)));
    let asked = world.status.pending.as_mut().expect("a name");
    asked.since = ago(300);
    let told = plan(&world);
    assert!(told.status.pending.is_none());
    assert_eq!(told.orphans, [(OTHER.to_owned(), "europe".to_owned())]);
}
