//! What the server refuses, and what is said of it.

use std::sync::Arc;
use std::time::Duration;

use aplomb::conditions::RECONCILING;
use aplomb_api::coder::{conditions as kinds, reasons};
use serde_json::json;

use super::scene::*;
use crate::access::AccessDenied;
use crate::client::{CallErrorClass, Entitlements};
use crate::ending::End;
use crate::hindrance::Blocked;
use crate::proxy::world::{Observed, ProxyScope};

/// A world whose name is written down and about to be registered.
fn asking(hindrance: Blocked) -> Observed {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 0));
    world.memory.unasked = Some("europe".to_owned());
    world.seen.hindered = Some(hindrance);
    world
}

#[test]
fn a_rate_limit_is_written_down_once_and_taken_back() {
    let mut world = asking(refused(CallErrorClass::Limited));
    let told = plan(&world);
    assert_eq!(notes(&told), ["RateLimited"]);
    assert_eq!(says(&told, kinds::REGISTERED), pair("False", "RateLimited"));
    let first = told.status.rate_limited.clone();
    assert!(first.is_some());
    world.status = told.status;
    world.seen.hindered = Some(later(true));
    let told = plan(&world);
    assert_eq!(told.status.rate_limited, first);
    assert!(told.notes.is_empty());
    world.status = told.status;
    world.seen.hindered = None;
    // A decision without a call does not show a recovery.
    world.memory.throttled = true;
    assert_eq!(plan(&world).status.rate_limited, first);
    world.memory.throttled = false;
    let told = plan(&world);
    assert_eq!((step(&world), told.status.rate_limited), ("register", None));
}

#[test]
fn with_a_registration_in_use_its_condition_stays() {
    let mut world = settled(json!({}));
    let place = (ProxyScope::of(&binding(URL)), ID.to_owned());
    world
        .seen
        .proxies
        .insert(place, Err(refused(CallErrorClass::Limited)));
    let told = plan(&world);
    assert!(told.status.rate_limited.is_some());
    assert_eq!(says(&told, kinds::REGISTERED), pair("True", "Registered"));
    assert_eq!(ready(&told), pair("Unknown", "Stale"));
}

#[test]
fn what_is_known_stands_in_for_a_look_that_is_refused_for_the_limit() {
    let mut world = settled(json!({}));
    world.seen.put_off = vec![refused(CallErrorClass::Limited)];
    let told = plan(&world);
    assert!(told.status.rate_limited.is_some());
    assert_eq!(ready(&told), pair("True", "Proven"));
}

#[test]
fn a_turn_is_waited_for() {
    let told = plan(&asking(later(false)));
    let registered = says(&told, kinds::REGISTERED);
    assert_eq!(registered, pair("False", reasons::WAITING_FOR_BUDGET));
    assert!(matches!(told.end, End::Again(wait) if wait > Duration::from_secs(20)));
}

#[test]
fn every_other_refusal_has_its_condition_and_its_pace() {
    let rejected = |class| matches!(plan(&asking(refused(class))).end, End::Rejected { .. });
    assert!(rejected(CallErrorClass::Invalid) && rejected(CallErrorClass::Forbidden));
    let token = plan(&asking(refused(CallErrorClass::Token)));
    assert_eq!(token.end, End::Again(super::super::SELDOM));
    let access = says(&token, kinds::OPERATOR_ACCESS_READY);
    assert_eq!(access, pair("False", "TokenRejected"));
    for class in [CallErrorClass::Server, CallErrorClass::NoAnswer] {
        let told = plan(&asking(refused(class)));
        assert!(matches!(told.end, End::Unavailable(_)), "{:?}", told.end);
        let server = says(&told, kinds::CONTROL_PLANE_READY);
        assert_eq!(server, pair("False", "ServerUnreachable"));
        assert!(told.status.pending.is_some());
    }
}

#[test]
fn without_a_licence_nothing_is_tried_for_ten_minutes() {
    let mut world = world(object(json!({})));
    let none = Arc::new(told(Entitlements::default()));
    world.seen.entitlements = Some(Ok(none));
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "NotEntitled"));
    assert_eq!(told.end, End::Again(super::super::SELDOM));
    world.seen.entitlements = Some(Err(refused(CallErrorClass::Missing)));
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "NotSupported"));
    assert_eq!(told.end, End::Again(super::super::SELDOM));
    world.seen.entitlements = Some(Err(refused(CallErrorClass::Server)));
    assert!(matches!(plan(&world).end, End::Unavailable(_)));
}

#[test]
fn what_is_registered_works_on_while_the_licence_cannot_be_read() {
    let mut world = settled(json!({}));
    world.seen.entitlements = Some(Err(later(false)));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(says(&told, kinds::PROXY_HEALTHY), pair("True", "Healthy"));
}

#[test]
fn without_access_nothing_is_asked() {
    let mut world = world(object(json!({})));
    world.access = Some(Err(AccessDenied {
        no_server: false,
        reason: reasons::TOKEN_OF_OTHER_SERVER,
        message: "it is the token of another".to_owned(),
    }));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(ready(&told), pair("False", "TokenOfOtherServer"));
}

#[test]
fn what_is_rejected_is_not_being_worked_on() {
    let told = plan(&asking(refused(CallErrorClass::Invalid)));
    assert!(matches!(told.end, End::Rejected { .. }));
    assert_eq!(says(&told, RECONCILING), pair("", ""));
    let told = plan(&asking(refused(CallErrorClass::Server)));
    assert_eq!(says(&told, RECONCILING).0, "True");
}

#[test]
fn ready_names_what_is_wrong_with_the_server() {
    let told = plan(&asking(refused(CallErrorClass::NoAnswer)));
    assert_eq!(ready(&told), pair("False", "ServerUnreachable"));
    let mut world = world(object(json!({})));
    world.access = Some(Err(AccessDenied {
        no_server: true,
        reason: reasons::CONTROL_PLANE_UNAVAILABLE,
        message: "there is none".to_owned(),
    }));
    assert_eq!(ready(&plan(&world)).1, reasons::CONTROL_PLANE_UNAVAILABLE);
    // Where a token works, a server that does not respond only makes the state unknown.
    let mut world = settled(json!({}));
    hinders(&mut world, URL, ID, refused(CallErrorClass::NoAnswer));
    assert_eq!(ready(&plan(&world)), pair("Unknown", "ServerUnreachable"));
}
