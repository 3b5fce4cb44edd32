//! What a server's refusals make of an object: each its own words, and none of them moves without cause.

use std::time::Duration;

use serde_json::json;

use super::fixture::*;
use crate::access::AccessDenied;
use crate::blocked::End;
use crate::client::{CallErrorClass, Entitlement};
use crate::provisioner::Observed;

/// An object whose first key is asked for and hindered so.
fn blocked(hindrance: crate::blocked::Blocked) -> Observed {
    let mut world = world(object(json!({})), &[]);
    world.status = plan(&world).status;
    world.remembered.unrequested_name = Some(numbered_key_name(0));
    world.progress.create_blocked = Some(hindrance);
    world
}

#[test]
fn the_limit_is_reported_once_and_in_the_same_words() {
    let mut world = blocked(refused_call(CallErrorClass::Limited));
    let first = plan(&world);
    assert_eq!(condition(&first, "ProvisionerKeyReady"), Some(("False", "RateLimited")));
    assert_eq!(first.notes.iter().filter(|it| it.reason == "RateLimited").count(), 1);
    world.status = first.status.clone();
    world.now = ago(-20).0;
    world.progress.create_blocked = Some(deferred_call(true));
    let second = plan(&world);
    assert_eq!(second.status, first.status);
    assert_eq!(second.conditions, first.conditions);
    assert!(second.notes.is_empty(), "{:?}", second.notes);
}

#[test]
fn the_limit_is_taken_back_when_the_server_answers() {
    let mut world = running(json!({}), "team", 2);
    world.status.rate_limited = plan(&blocked(deferred_call(true))).status.rate_limited;
    assert!(world.status.rate_limited.is_some());
    let told = plan(&world);
    assert!(told.status.rate_limited.is_none());
    assert!(told.notes.iter().any(|it| it.reason == "Recovered"));
}

#[test]
fn a_working_key_stays_ready_whatever_is_refused() {
    for hindrance in [
        refused_call(CallErrorClass::Limited),
        refused_call(CallErrorClass::Server),
        deferred_call(true),
    ] {
        let mut world = running(json!({ "spec": { "tags": { "a": "b" } } }), "team", 2);
        world.status.pending = Some(key("team-1"));
        world.status.rotation.sequence = 1;
        world.status.pending.as_mut().expect("pending").tags_hash =
            crate::provisioner::decide::tags_hash(&world.object.spec.tags);
        world.remembered.unrequested_name = Some("team-1".to_owned());
        world.progress.create_blocked = Some(hindrance);
        let told = plan(&world);
        assert_eq!(
            condition(&told, "ProvisionerKeyReady"),
            Some(("True", "ProvisionerKeyReady"))
        );
    }
}

#[test]
fn a_queued_call_is_not_reported_as_rate_limited() {
    let told = plan(&blocked(deferred_call(false)));
    assert_eq!(
        condition(&told, "ProvisionerKeyReady"),
        Some(("False", "WaitingForBudget"))
    );
    assert!(told.status.rate_limited.is_none());
    assert!(matches!(told.end, End::RequeueAfter(wait) if wait > Duration::from_secs(20)));
}

#[test]
fn what_only_a_user_can_fix_is_reported_and_not_retried() {
    for class in [CallErrorClass::Invalid, CallErrorClass::Forbidden] {
        let told = plan(&blocked(refused_call(class)));
        assert!(matches!(told.end, End::Rejected { .. }), "{class:?} {:?}", told.end);
        assert_eq!(
            condition(&told, "ProvisionerKeyReady"),
            Some(("False", "ProvisionerKeyFailed"))
        );
        assert!(told.status.pending.is_some());
    }
}

#[test]
fn a_rejected_token_is_reported_in_its_condition() {
    let told = plan(&blocked(refused_call(CallErrorClass::Token)));
    assert_eq!(
        condition(&told, "OperatorAccessReady"),
        Some(("False", "TokenRejected"))
    );
    assert_eq!(condition(&told, "Ready"), Some(("False", "TokenRejected")));
}

#[test]
fn a_server_that_does_not_answer_is_tried_again() {
    let told = plan(&blocked(refused_call(CallErrorClass::NoAnswer)));
    assert!(matches!(told.end, End::Unavailable(_)), "{:?}", told.end);
    assert_eq!(
        condition(&told, "ControlPlaneReady"),
        Some(("False", "ServerUnreachable"))
    );
}

#[test]
fn without_a_license_nothing_is_requested_but_the_license() {
    let mut world = world(object(json!({})), &[]);
    let unlicensed = world.progress.entitlements.take().and_then(Result::ok).map(|it| {
        let mut value = it.value;
        value.provisioners.entitlement = Entitlement::NotEntitled;
        listed(value)
    });
    world.progress.entitlements = unlicensed.map(Ok);
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.end, End::RequeueAfter(super::super::PERMANENT_RETRY));
    assert_eq!(
        condition(&told, "ExternalProvisionersEntitled"),
        Some(("False", "NotEntitled"))
    );
    assert_eq!(condition(&told, "Ready"), Some(("False", "NotEntitled")));
}

#[test]
fn a_license_that_could_not_be_requested_is_distinguished() {
    for (class, said) in [
        (CallErrorClass::Forbidden, Some(("False", "Forbidden"))),
        (CallErrorClass::Server, Some(("Unknown", "EntitlementsQueryFailed"))),
        (CallErrorClass::Limited, None),
    ] {
        let mut world = world(object(json!({})), &[]);
        world.progress.entitlements = Some(Err(refused_call(class)));
        let told = plan(&world);
        assert_eq!(condition(&told, "ExternalProvisionersEntitled"), said, "{class:?}");
    }
}

#[test]
fn a_server_that_knows_no_licenses_is_distinguished() {
    let mut world = world(object(json!({})), &[]);
    world.progress.entitlements = Some(Err(refused_call(CallErrorClass::Missing)));
    let told = plan(&world);
    assert_eq!(condition(&told, "Ready"), Some(("False", "NotSupported")));
}

#[test]
fn without_access_the_reason_is_readys_too() {
    let mut world = world(object(json!({})), &[]);
    world.access = Err(AccessDenied {
        server_missing: false,
        reason: "OperatorTokenSecretUnavailable",
        message: "the Secret does not exist".to_owned(),
    });
    let told = plan(&world);
    assert_eq!(
        condition(&told, "Ready"),
        Some(("False", "OperatorTokenSecretUnavailable"))
    );
    assert!(told.step.is_none());
}

#[test]
fn daemons_that_could_not_be_seen_for_long_leave_readiness_unknown() {
    let mut world = running(json!({}), "team", 2);
    world.progress.daemons = [(place(), Err(deferred_call(true)))].into();
    assert_eq!(condition(&plan(&world), "Ready"), Some(("Unknown", "Stale")));
}

#[test]
fn some_daemons_are_not_all() {
    let told = plan(&running(json!({}), "team", 1));
    assert_eq!(condition(&told, "DaemonsConnected"), Some(("False", "SomeConnected")));
    assert_eq!(condition(&told, "Ready"), Some(("False", "SomeConnected")));
    assert_eq!(told.end, End::RequeueAfter(super::super::WAITING_POLL));
}

#[test]
fn an_organization_that_is_not_there_lowers_readiness_though_a_key_works() {
    let mut world = running(json!({}), "team", 2);
    world.progress.organization = Some(Err(refused_call(CallErrorClass::Missing)));
    let told = plan(&world);
    assert_eq!(condition(&told, "Ready"), Some(("False", "OrganizationNotFound")));
    assert_eq!(condition(&told, "ProvisionerKeyReady").map(|it| it.0), Some("True"));
}

#[test]
fn children_are_kept_although_the_organization_cannot_be_read() {
    let mut world = running(json!({}), "team", 2);
    world.progress.organization = Some(Err(refused_call(CallErrorClass::Server)));
    world.progress.applied = false;
    assert!(matches!(plan(&world).step, Some(crate::provisioner::Step::Apply(_))));
}

#[test]
fn what_is_rejected_is_not_being_worked_on() {
    let told = plan(&blocked(refused_call(CallErrorClass::Invalid)));
    assert_eq!(condition(&told, "Reconciling"), None);
}

#[test]
fn a_rotation_that_is_held_up_holds_up_nothing_else() {
    let mut world = running(json!({ "spec": { "tags": { "a": "b" } } }), "team", 2);
    world.status = plan(&world).status;
    world.remembered.unrequested_name = Some(numbered_key_name(1));
    world.progress.create_blocked = Some(deferred_call(true));
    world.progress.applied = false;
    assert!(matches!(plan(&world).step, Some(crate::provisioner::Step::Apply(_))));
    world.progress.applied = true;
    let told = plan(&world);
    assert_eq!(condition(&told, "Ready"), Some(("True", "Proven")));
    assert!(told.status.rate_limited.is_some());
}

#[test]
fn no_child_is_made_for_a_server_that_has_no_key_yet() {
    let mut world = running(json!({}), "team", 2);
    let key = world.status.key.as_mut().expect("a key");
    key.binding.server_url = "https://old.example.com".to_owned();
    world.status = plan(&world).status;
    world.remembered.unrequested_name = world.status.pending.as_ref().map(|it| it.name.clone());
    world.progress.create_blocked = Some(deferred_call(true));
    world.progress.applied = false;
    assert!(plan(&world).step.is_none());
}

#[test]
fn a_rejected_token_is_not_reported_as_a_missing_license() {
    let mut world = world(object(json!({})), &[]);
    world.progress.entitlements = Some(Err(refused_call(CallErrorClass::Token)));
    let told = plan(&world);
    let mut all = told.conditions.iter();
    let said = all.find(|it| it.type_ == "ExternalProvisionersEntitled");
    let said = &said.expect("a condition").message;
    assert!(said.contains("while the server rejects the token"), "{said}");
}
