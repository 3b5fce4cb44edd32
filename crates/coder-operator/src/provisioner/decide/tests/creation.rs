//! The way to the first key.

use serde_json::json;

use super::fixture::*;
use crate::blocked::End;
use crate::children_state::SecretState;
use crate::client::CallErrorClass;
use crate::provisioner::{Progress, Step};

#[test]
fn the_finalizer_comes_before_anything_else() {
    let mut world = world(object(json!({ "metadata": { "finalizers": null } })), &[]);
    assert!(matches!(plan(&world).step, Some(Step::Finalize)));
    world.progress.finalized = true;
    assert!(plan(&world).step.is_none());
}

#[test]
fn a_license_is_requested_before_an_organization_and_that_before_keys() {
    let mut world = world(object(json!({})), &[]);
    let seen = std::mem::take(&mut world.progress);
    assert!(matches!(plan(&world).step, Some(Step::Entitlements)));
    world.progress = Progress {
        entitlements: seen.entitlements,
        ..Progress::default()
    };
    assert!(matches!(plan(&world).step, Some(Step::Organization)));
    world.progress.organization = seen.organization;
    assert!(matches!(plan(&world).step, Some(Step::Keys(..))));
}

#[test]
fn a_name_is_written_down_before_it_is_requested() {
    let mut world = world(object(json!({})), &[]);
    let intended = plan(&world);
    assert!(intended.step.is_none(), "{:?}", intended.step);
    assert_eq!(intended.end, End::RequeueAfter(std::time::Duration::ZERO));
    let pending = intended.status.pending.clone().expect("a name");
    assert_eq!(pending.name, numbered_key_name(0));
    world.status = intended.status;
    world.remembered.unrequested_name = Some(numbered_key_name(0));
    assert!(matches!(plan(&world).step, Some(Step::Create(key)) if key.name == numbered_key_name(0)));
}

#[test]
fn after_a_crash_the_keys_are_listed_to_find_the_pending_name() {
    let mut world = world(object(json!({})), &[]);
    world.status = plan(&world).status;
    world.progress.keys.clear();
    assert!(matches!(plan(&world).step, Some(Step::Keys(..))));
}

#[test]
fn a_key_whose_plaintext_was_lost_retires_and_the_next_name_is_taken() {
    let mut world = world(object(json!({})), &[]);
    world.status = plan(&world).status;
    let mut made = listed_key(&numbered_key_name(0));
    made.created_at = now();
    world.progress.keys = [(place(), Ok(listed(vec![made.clone()])))].into();
    let lost = plan(&world);
    assert_eq!(lost.status.retiring.len(), 1);
    assert!(!lost.status.retiring[0].used);
    assert!(lost.status.pending.is_none());
    world.status = lost.status;
    let next = plan(&world);
    assert_eq!(next.status.pending.map(|it| it.name), Some(numbered_key_name(1)));
}

#[test]
fn a_key_that_was_there_before_the_name_was_written_down_is_not_ours() {
    let mut world = world(object(json!({})), &[]);
    world.status = plan(&world).status;
    world.progress.keys = [(place(), Ok(listed(vec![listed_key(&numbered_key_name(0))])))].into();
    let found = plan(&world);
    assert!(found.status.retiring.is_empty());
    world.status = found.status;
    let told = plan(&world);
    assert!(matches!(told.end, End::Rejected { .. }), "{:?}", told.end);
    assert_eq!(
        condition(&told, "ProvisionerKeyReady"),
        Some(("False", "ProvisionerKeyNotOurs"))
    );
}

#[test]
fn a_taken_name_is_reported_and_not_requested() {
    let world = world(object(json!({})), &[&numbered_key_name(0)]);
    let told = plan(&world);
    assert!(told.status.pending.is_none());
    assert_eq!(condition(&told, "Ready"), Some(("False", "ProvisionerKeyNotOurs")));
}

#[test]
fn a_name_that_was_taken_in_between_is_reported_too() {
    let mut world = world(object(json!({})), &[]);
    world.status = plan(&world).status;
    world.remembered.unrequested_name = Some(numbered_key_name(0));
    world.progress.create_blocked = Some(refused_call(CallErrorClass::Exists));
    let told = plan(&world);
    assert!(told.status.pending.is_none());
    assert!(matches!(told.end, End::Rejected { .. }), "{:?}", told.end);
}

#[test]
fn a_name_that_may_have_been_requested_before_is_looked_up_again() {
    let mut world = world(object(json!({})), &[]);
    world.status = plan(&world).status;
    world.progress.create_blocked = Some(refused_call(CallErrorClass::Exists));
    let told = plan(&world);
    assert_eq!(told.status.pending.map(|it| it.name), Some(numbered_key_name(0)));
    assert_eq!(told.end, End::RequeueAfter(std::time::Duration::ZERO));
}

/// Anyone can write the name of a key into a Secret.
#[test]
fn a_key_that_another_object_uses_is_not_taken_over() {
    let mut world = world(object(json!({})), &["theirs"]);
    world.secret = secret_holding("theirs");
    world.foreign_claims = ["theirs".to_owned()].into();
    let told = plan(&world);
    assert!(told.status.key.is_none(), "{:?}", told.status);
    assert_eq!(told.status.pending.map(|it| it.name), Some(numbered_key_name(0)));
    assert!(told.notes.iter().any(|it| it.reason == "KeyNotOurs"));
}

#[test]
fn a_secret_that_holds_the_pending_key_completes_it() {
    let mut world = world(object(json!({})), &["team"]);
    world.status.pending = Some(key("team"));
    world.secret = secret_holding("team");
    let done = plan(&world);
    assert_eq!(done.status.key.map(|it| it.name).as_deref(), Some("team"));
    assert!(done.status.pending.is_none());
    assert!(matches!(done.step, Some(Step::Apply(_))));
}

#[test]
fn a_plaintext_in_hand_goes_into_the_secret_first() {
    let mut world = world(object(json!({})), &[]);
    world.status.pending = Some(key("team"));
    world.remembered.unsaved_key = Some("team".to_owned());
    assert!(matches!(plan(&world).step, Some(Step::Store(_))));
}

#[test]
fn a_key_that_was_brought_along_is_taken_over_and_not_replaced() {
    let mut world = world(object(json!({})), &["team"]);
    world.secret = secret_holding("team");
    let taken = plan(&world);
    assert_eq!(taken.status.provisioner_key_id.as_deref(), Some("id-of-team"));
    assert!(taken.status.pending.is_none());
    assert!(matches!(taken.step, Some(Step::Apply(_))));
}

#[test]
fn a_secret_of_others_is_left_alone() {
    let mut world = world(object(json!({})), &[]);
    world.secret = SecretState::Foreign("it belongs to another object".to_owned());
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(condition(&told, "Ready"), Some(("False", "SecretNotOurs")));
}

#[test]
fn without_an_image_nothing_is_made() {
    let world = world(object(json!({ "spec": { "image": null } })), &[]);
    let told = plan(&world);
    assert!(told.status.pending.is_none());
    assert_eq!(condition(&told, "DeploymentReady"), Some(("False", "ImageMissing")));
    assert_eq!(condition(&told, "Ready").map(|it| it.0), Some("False"));
}

#[test]
fn a_key_that_another_object_claims_is_never_taken_for_ours() {
    let mut world = world(object(json!({})), &[]);
    world.status = plan(&world).status;
    world.foreign_claims = [numbered_key_name(0)].into();
    let mut made = listed_key(&numbered_key_name(0));
    made.created_at = now();
    world.progress.keys = [(place(), Ok(listed(vec![made])))].into();
    let told = plan(&world);
    assert!(told.status.pending.is_none() && told.status.retiring.is_empty());
}

#[test]
fn a_name_is_dated_by_the_servers_clock() {
    let mut world = world(object(json!({})), &[]);
    let behind = crate::server::Timestamped {
        requested_at: world.instant,
        server_time: ago(7200).0,
        value: Vec::new(),
    };
    world.progress.keys = [(place(), Ok(std::sync::Arc::new(behind)))].into();
    let pending = plan(&world).status.pending.expect("a name");
    assert_eq!(pending.since, ago(7200));
}

#[test]
fn a_secret_of_a_key_that_is_gone_does_not_pass_for_a_new_one() {
    let mut world = world(object(json!({})), &[]);
    world.secret = secret_holding(&numbered_key_name(0));
    let intended = plan(&world);
    assert_eq!(intended.status.pending.map(|it| it.name), Some(numbered_key_name(1)));
}

/// A key of this name at the server, made right after the name was written down.
fn listed_now(name: &str) -> crate::client::ProvisionerKey {
    let mut made = listed_key(name);
    made.created_at = now();
    made
}

#[test]
fn a_key_made_at_the_right_time_is_not_ours_for_that() {
    // Written down by an earlier version, or by hand: another client may have given this name to a
    // key.
    for pending in ["team", "team-1", "team-00000000"] {
        let mut world = world(object(json!({})), &[]);
        let mut record = key(pending);
        record.since = ago(0);
        world.status.pending = Some(record);
        world.progress.keys = [(place(), Ok(listed(vec![listed_now(pending)])))].into();
        let told = plan(&world);
        assert!(told.status.retiring.is_empty(), "{pending}");
        assert!(told.status.pending.is_none() && told.status.key.is_none());
        assert!(told.step.is_none());
        let notes: Vec<_> = told.notes.iter().map(|it| &*it.reason).collect();
        assert_eq!(notes, ["KeyNotOurs"], "{pending}");
    }
}

#[test]
fn a_key_of_another_cluster_under_the_same_names_is_not_ours() {
    let there = json!({ "metadata": { "uid": "another" } });
    let mut world = world(object(json!({})), &[]);
    let theirs = plan(&super::fixture::world(object(there), &[]))
        .status
        .pending
        .expect("a name")
        .name;
    world.status = plan(&world).status;
    world.progress.keys = [(place(), Ok(listed(vec![listed_now(&theirs)])))].into();
    let told = plan(&world);
    assert!(told.status.retiring.is_empty());
    assert!(matches!(told.step, Some(Step::Create(key)) if key.name == numbered_key_name(0) && key.name != theirs));
}

#[test]
fn a_taken_name_is_reported_by_an_event_once() {
    let mut world = world(object(json!({})), &[&numbered_key_name(0)]);
    let told = plan(&world);
    let notes = |plan: &crate::provisioner::Plan| plan.notes.iter().map(|it| it.reason.to_string()).collect::<Vec<_>>();
    assert_eq!(notes(&told), ["KeyNotOurs"]);
    let condition = json!({ "type": "ProvisionerKeyReady", "status": "False", "message": "",
        "reason": "ProvisionerKeyNotOurs", "lastTransitionTime": NOW });
    let condition = serde_json::from_value(condition).expect("a condition");
    world.status.conditions = vec![condition];
    assert!(notes(&plan(&world)).is_empty());
}

#[test]
fn no_name_is_written_down_before_its_token_is_kept() {
    let mut world = world(object(json!({})), &[]);
    world.secret_kept = false;
    let told = plan(&world);
    assert!(told.needs_secret && told.step.is_none() && told.status.pending.is_none());
    let said = |kind: &str| told.conditions.iter().find(|it| it.type_ == kind);
    let said = said("ProvisionerKeyReady").expect("a condition");
    assert!(said.message.contains("coder.aplomb.dev/token"), "{}", said.message);
    // A Secret that was brought along is not taken over either.
    world.secret = secret_holding("team");
    world.progress.keys = [(place(), Ok(listed(vec![listed_key("team")])))].into();
    let told = plan(&world);
    assert!(told.needs_secret && told.status.key.is_none());
    // A key in use goes on.
    let mut world = running(json!({}), "team", 2);
    world.secret_kept = false;
    assert_eq!(condition(&plan(&world), "Ready"), Some(("True", "Proven")));
}
