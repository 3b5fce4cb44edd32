//! What the server refuses, and what is said of it.

use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::RECONCILING;
use aplomb_api::coder::{conditions as kinds, reasons};
use serde_json::json;

use super::fixture::*;
use crate::access::AccessDenied;
use crate::blocked::{Blocked, End};
use crate::client::{CallErrorClass, Entitlements};
use crate::workspace_proxy::{Observed, ProxyScope};

/// A world whose name is written down and about to be registered.
fn blocked_read(hindrance: Blocked) -> Observed {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 0));
    world.remembered.unrequested_name = Some("europe".to_owned());
    world.progress.blocked = Some(hindrance);
    world
}

#[test]
fn a_rate_limit_is_written_down_once_and_taken_back() {
    let mut world = blocked_read(refused_call(CallErrorClass::Limited));
    let told = plan(&world);
    assert_eq!(notes(&told), ["RateLimited"]);
    assert_eq!(condition(&told, kinds::REGISTERED), pair("False", "RateLimited"));
    let first = told.status.rate_limited.clone();
    assert!(first.is_some());
    world.status = told.status;
    world.progress.blocked = Some(deferred_call(true));
    let told = plan(&world);
    assert_eq!(told.status.rate_limited, first);
    assert!(told.notes.is_empty());
    world.status = told.status;
    world.progress.blocked = None;
    // A decision without a call does not show a recovery.
    world.remembered.throttled = true;
    assert_eq!(plan(&world).status.rate_limited, first);
    world.remembered.throttled = false;
    let told = plan(&world);
    assert_eq!((step(&world), told.status.rate_limited), ("register", None));
}

#[test]
fn with_a_registration_in_use_its_condition_stays() {
    let mut world = settled(json!({}));
    let place = (ProxyScope::for_binding(&binding(URL)), ID.to_owned());
    world
        .progress
        .proxies
        .insert(place, Err(refused_call(CallErrorClass::Limited)));
    let told = plan(&world);
    assert!(told.status.rate_limited.is_some());
    assert_eq!(condition(&told, kinds::REGISTERED), pair("True", "Registered"));
    assert_eq!(ready(&told), pair("Unknown", "Stale"));
}

#[test]
fn what_is_known_stands_in_for_a_read_that_is_refused_for_the_limit() {
    let mut world = settled(json!({}));
    world.progress.deferred = vec![refused_call(CallErrorClass::Limited)];
    let told = plan(&world);
    assert!(told.status.rate_limited.is_some());
    assert_eq!(ready(&told), pair("True", "Proven"));
}

#[test]
fn a_turn_is_waited_for() {
    let told = plan(&blocked_read(deferred_call(false)));
    let registered = condition(&told, kinds::REGISTERED);
    assert_eq!(registered, pair("False", reasons::WAITING_FOR_BUDGET));
    assert!(matches!(told.end, End::RequeueAfter(wait) if wait > Duration::from_secs(20)));
}

#[test]
fn every_other_refusal_has_its_condition_and_its_pace() {
    let rejected = |class| matches!(plan(&blocked_read(refused_call(class))).end, End::Rejected { .. });
    assert!(rejected(CallErrorClass::Invalid) && rejected(CallErrorClass::Forbidden));
    let token = plan(&blocked_read(refused_call(CallErrorClass::Token)));
    assert_eq!(token.end, End::RequeueAfter(super::super::PERMANENT_RETRY));
    let access = condition(&token, kinds::OPERATOR_ACCESS_READY);
    assert_eq!(access, pair("False", "TokenRejected"));
    for class in [CallErrorClass::Server, CallErrorClass::NoAnswer] {
        let told = plan(&blocked_read(refused_call(class)));
        assert!(matches!(told.end, End::Unavailable(_)), "{:?}", told.end);
        let server = condition(&told, kinds::CONTROL_PLANE_READY);
        assert_eq!(server, pair("False", "ServerUnreachable"));
        assert!(told.status.pending.is_some());
    }
}

#[test]
fn without_a_license_nothing_is_tried_for_ten_minutes() {
    let mut world = world(object(json!({})));
    let none = Arc::new(timestamped(Entitlements::default()));
    world.progress.entitlements = Some(Ok(none));
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "NotEntitled"));
    assert_eq!(told.end, End::RequeueAfter(super::super::PERMANENT_RETRY));
    world.progress.entitlements = Some(Err(refused_call(CallErrorClass::Missing)));
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "NotSupported"));
    assert_eq!(told.end, End::RequeueAfter(super::super::PERMANENT_RETRY));
    world.progress.entitlements = Some(Err(refused_call(CallErrorClass::Server)));
    assert!(matches!(plan(&world).end, End::Unavailable(_)));
}

#[test]
fn what_is_registered_works_on_while_the_license_cannot_be_read() {
    let mut world = settled(json!({}));
    world.progress.entitlements = Some(Err(deferred_call(false)));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(condition(&told, kinds::PROXY_HEALTHY), pair("True", "Healthy"));
}

#[test]
fn without_access_no_call_is_made() {
    let mut world = world(object(json!({})));
    world.access = Some(Err(AccessDenied {
        server_missing: false,
        reason: reasons::TOKEN_OF_OTHER_SERVER,
        message: "it is the token of another".to_owned(),
    }));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(ready(&told), pair("False", "TokenOfOtherServer"));
}

#[test]
fn what_is_rejected_is_not_being_worked_on() {
    let told = plan(&blocked_read(refused_call(CallErrorClass::Invalid)));
    assert!(matches!(told.end, End::Rejected { .. }));
    assert_eq!(condition(&told, RECONCILING), pair("", ""));
    let told = plan(&blocked_read(refused_call(CallErrorClass::Server)));
    assert_eq!(condition(&told, RECONCILING).0, "True");
}

#[test]
fn ready_names_what_is_wrong_with_the_server() {
    let told = plan(&blocked_read(refused_call(CallErrorClass::NoAnswer)));
    assert_eq!(ready(&told), pair("False", "ServerUnreachable"));
    let mut world = world(object(json!({})));
    world.access = Some(Err(AccessDenied {
        server_missing: true,
        reason: reasons::CONTROL_PLANE_UNAVAILABLE,
        message: "there is none".to_owned(),
    }));
    assert_eq!(ready(&plan(&world)).1, reasons::CONTROL_PLANE_UNAVAILABLE);
    // Where a token works, a server that does not respond only makes the state unknown.
    let mut world = settled(json!({}));
    set_blocked(&mut world, URL, ID, refused_call(CallErrorClass::NoAnswer));
    assert_eq!(ready(&plan(&world)), pair("Unknown", "ServerUnreachable"));
}
