//! Deletion: drain the daemons, delete the keys, remove the finalizer.

use aplomb_api::coder::RetiringKey;
use serde_json::{Value, json};

use super::fixture::*;
use crate::access::AccessDenied;
use crate::blocked::End;
use crate::client::CallErrorClass;
use crate::provisioner::{Observed, Step};

/// An object that is being deleted for so many seconds, with `connected` daemons.
fn deleting(seconds: i64, change: Value, connected: usize) -> Observed {
    let mut world = running(change, "team", connected);
    let mut object = (*world.object).clone();
    object.metadata.deletion_timestamp = Some(ago(seconds));
    world.object = std::sync::Arc::new(object);
    world
}

#[test]
fn daemons_are_stopped_before_the_key_goes() {
    let mut world = deleting(1, json!({}), 1);
    assert!(matches!(plan(&world).step, Some(Step::Drain)));
    world.deployment.as_mut().expect("a deployment").replicas = 0;
    let waits = plan(&world);
    assert!(waits.step.is_none(), "{:?}", waits.step);
    assert_eq!(condition(&waits, "Ready"), Some(("False", "Deleting")));
    world.progress.daemons = [(place(), Ok(listed(vec![daemons("team", 0)])))].into();
    assert!(matches!(plan(&world).step, Some(Step::Delete(_))));
    world.progress.deleted = vec![key("team")];
    assert!(matches!(plan(&world).step, Some(Step::Release)));
}

#[test]
fn a_daemon_that_does_not_end_has_its_grace() {
    let mut world = deleting(661, json!({}), 1);
    world.progress.drained = true;
    world.status = plan(&world).status;
    world.status.retiring[0].retired = ago(660);
    assert!(matches!(plan(&world).step, Some(Step::Delete(_))));
}

#[test]
fn a_refusal_for_the_limit_keeps_the_object() {
    let mut world = deleting(3000, json!({}), 0);
    world.progress.drained = true;
    world.progress.undeleted = vec![(key("team"), refused_call(CallErrorClass::Limited))];
    let told = plan(&world);
    assert!(told.step.is_none());
    assert!(told.status.rate_limited.is_some());
    assert_eq!(told.status.retiring.len(), 1);
}

#[test]
fn an_abandoned_object_goes_at_once_and_its_key_is_reported() {
    let abandon = json!({ "metadata": { "annotations": { "coder.aplomb.dev/abandon": "true" } } });
    let told = plan(&deleting(1, abandon, 2));
    assert!(matches!(told.step, Some(Step::Release)));
    assert!(
        told.notes.iter().any(|it| it.reason == "KeyOrphaned"),
        "{:?}",
        told.notes
    );
}

#[test]
fn the_deadline_lets_go_what_cannot_be_deleted_after_one_more_try() {
    // Not drained: the API server may refuse that for as long.
    let mut world = deleting(86_400, json!({}), 2);
    assert!(matches!(plan(&world).step, Some(Step::Delete(_))));
    world.progress.undeleted = vec![(key("team"), refused_call(CallErrorClass::Limited))];
    let told = plan(&world);
    assert!(matches!(told.step, Some(Step::Release)));
    assert!(told.notes.iter().any(|it| it.reason == "KeyOrphaned"));
}

#[test]
fn an_object_that_never_had_a_key_goes_without_the_server() {
    let mut world = deleting(1, json!({}), 0);
    world.status.key = None;
    assert!(matches!(plan(&world).step, Some(Step::Release)));
}

#[test]
fn a_name_that_was_never_requested_needs_nothing() {
    let mut world = deleting(1, json!({}), 0);
    world.status.key = None;
    world.status.pending = Some(key("team"));
    world.secret = crate::children_state::SecretState::Absent;
    world.remembered.unrequested_name = Some("team".to_owned());
    assert!(matches!(plan(&world).step, Some(Step::Release)));
}

#[test]
fn a_key_of_a_pending_name_goes_only_if_it_is_ours() {
    let mut world = deleting(1, json!({}), 0);
    world.status.key = None;
    world.progress.drained = true;
    world.secret = crate::children_state::SecretState::Absent;
    world.progress.keys = [(place(), Ok(listed(vec![listed_key(&numbered_key_name(0))])))].into();
    let mut pending = key(&numbered_key_name(0));
    pending.since = ago(3600);
    world.status.pending = Some(pending.clone());
    assert!(matches!(plan(&world).step, Some(Step::Delete(_))));
    pending.since = ago(10);
    world.status.pending = Some(pending);
    assert!(matches!(plan(&world).step, Some(Step::Release)));
}

#[test]
fn without_its_token_a_key_is_waited_for_and_the_way_out_is_reported() {
    let mut world = deleting(1, json!({}), 0);
    world.progress.drained = true;
    world.bound_scopes.clear();
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.end, End::RequeueAfter(super::super::PERMANENT_RETRY));
    let ready = told.conditions.iter().find(|it| it.type_ == "Ready").expect("Ready");
    assert!(
        ready
            .message
            .starts_with("cannot delete key team at https://coder.example.com (token in Secret token):"),
        "{}",
        ready.message
    );
    let command = "kubectl annotate cprov -n dev team coder.aplomb.dev/abandon=true";
    assert!(ready.message.ends_with(command), "{}", ready.message);
}

#[test]
fn old_keys_go_with_the_object() {
    let mut world = deleting(1, json!({}), 0);
    world.progress.drained = true;
    world.status.retiring = vec![RetiringKey {
        key: key(&numbered_key_name(3)),
        retired: ago(10),
        replaced: None,
        used: false,
    }];
    world.progress.deleted = vec![key("team")];
    world.progress.keys = [(place(), Ok(listed(vec![listed_key(&numbered_key_name(3))])))].into();
    assert!(matches!(plan(&world).step, Some(Step::Delete(key)) if key.name == numbered_key_name(3)));
}

#[test]
fn a_key_that_cannot_be_reached_does_not_hold_up_the_others() {
    let mut world = deleting(1, json!({}), 0);
    world.progress.drained = true;
    let mut elsewhere = key("team-old");
    elsewhere.binding.server_url = "https://old.example.com".to_owned();
    world.status.retiring = vec![RetiringKey {
        key: elsewhere,
        retired: ago(10),
        replaced: None,
        used: true,
    }];
    assert!(matches!(plan(&world).step, Some(Step::Delete(key)) if key.name == "team"));
}

#[test]
fn daemons_have_their_grace_from_the_stop_request() {
    let mut world = deleting(5_000, json!({}), 1);
    world.progress.drained = true;
    assert!(plan(&world).step.is_none());
}

#[test]
fn an_answer_that_was_lost_is_looked_for_a_while_longer() {
    let mut world = deleting(1, json!({}), 0);
    world.progress.drained = true;
    world.secret = crate::children_state::SecretState::Absent;
    world.status.key = None;
    world.status.pending = Some(key("team"));
    world.progress.keys = [(place(), Ok(listed(Vec::new())))].into();
    let waits = plan(&world);
    assert!(waits.step.is_none(), "{:?}", waits.step);
    world.status = waits.status;
    world.status.retiring[0].retired = ago(60);
    assert!(matches!(plan(&world).step, Some(Step::Release)));
}

#[test]
fn a_key_that_took_the_name_of_ours_a_moment_ago_is_left_alone() {
    let mut world = deleting(1, json!({}), 0);
    world.progress.drained = true;
    world.status.key.as_mut().expect("a key").id = Some("ours".to_owned());
    // The list of keys is minutes old, that of daemons is not.
    let mut before = listed_key("team");
    before.id = "ours".to_owned();
    world.progress.keys = [(place(), Ok(listed(vec![before])))].into();
    let told = plan(&world);
    assert!(matches!(told.step, Some(Step::Release)), "{:?}", told.step);
    assert!(told.notes.iter().any(|it| it.reason == "KeyNotOurs"));
}

#[test]
fn the_id_of_a_key_without_daemons_is_learned_from_the_list_of_keys() {
    let none = json!({ "spec": { "replicas": 0 } });
    let told = plan(&running(none, "team", 0));
    let key = told.status.key.expect("a key");
    assert_eq!(key.id.as_deref(), Some("id-of-team"));
}

/// The token is kept, and the server is gone: it was in the namespace too.
#[test]
fn a_server_that_goes_with_its_namespace_is_named_with_the_way_out() {
    let mut world = deleting(1, json!({}), 0);
    world.progress.drained = true;
    world.access = Err(AccessDenied {
        server_missing: true,
        reason: "ControlPlaneUnavailable",
        message: "CoderControlPlane does not exist".to_owned(),
    });
    world.progress.undeleted = vec![(key("team"), refused_call(CallErrorClass::NoAnswer))];
    let told = plan(&world);
    assert!(told.step.is_none(), "{:?}", told.step);
    assert_eq!(condition(&told, "Ready"), Some(("False", "Deleting")));
    let ready = told.conditions.iter().find(|it| it.type_ == "Ready");
    let said = &ready.expect("Ready").message;
    assert!(
        said.starts_with("cannot delete key team at https://coder.example.com"),
        "{said}"
    );
    let command = "kubectl annotate cprov -n dev team coder.aplomb.dev/abandon=true";
    assert!(said.ends_with(command), "{said}");
}
