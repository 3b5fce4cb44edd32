//! From nothing to a registration in use.

use aplomb_api::coder::conditions as kinds;
use serde_json::json;

use super::fixture::*;
use crate::blocked::End;
use crate::children_state::SecretState;
use crate::client::CallErrorClass;
use crate::workspace_proxy::Progress;

#[test]
fn the_finalizer_and_the_license_come_first() {
    let bare = object(json!({ "metadata": { "finalizers": [] } }));
    assert_eq!(step(&world(bare)), "finalize");
    let mut unasked = world(object(json!({})));
    unasked.progress = Progress::default();
    assert_eq!(step(&unasked), "entitlements");
}

#[test]
fn a_name_is_recorded_once_it_is_free() {
    let mut world = world(object(json!({})));
    assert_eq!(step(&world), "look");
    set_found(&mut world, URL, "europe", None);
    let told = plan(&world);
    let pending = told.status.pending.expect("a name");
    assert_eq!((pending.name.as_str(), pending.since), ("europe", ago(0)));
    assert!(told.step.is_none());
    assert_eq!(told.end, End::RequeueAfter(std::time::Duration::ZERO));
}

#[test]
fn a_name_of_another_owner_is_not_touched() {
    let mut world = world(object(json!({})));
    set_found(&mut world, URL, "europe", Some(proxy("x", "europe", 60)));
    let told = plan(&world);
    assert!(matches!(told.end, End::Rejected { .. }), "{:?}", told.end);
    assert_eq!(condition(&told, kinds::REGISTERED), pair("False", "ProxyNotOurs"));
    assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
    assert!(told.status.pending.is_none());
}

#[test]
fn a_name_that_was_written_down_just_now_is_registered_without_a_read() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 0));
    assert_eq!(step(&world), "look");
    world.remembered.unrequested_name = Some("europe".to_owned());
    assert_eq!(step(&world), "register");
}

#[test]
fn a_name_that_was_taken_in_between_is_reported() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 0));
    world.remembered.unrequested_name = Some("europe".to_owned());
    world.progress.blocked = Some(refused_call(CallErrorClass::Exists));
    let told = plan(&world);
    assert!(told.status.pending.is_none());
    assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
}

#[test]
fn a_name_that_may_have_been_requested_before_is_looked_up_again() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    set_found(&mut world, URL, "europe", None);
    assert_eq!(step(&world), "register");
    world.progress.blocked = Some(refused_call(CallErrorClass::Exists));
    let told = plan(&world);
    assert!(told.status.pending.is_some() && told.step.is_none());
}

#[test]
fn a_proxy_made_after_its_name_was_written_down_is_ours_and_gets_a_token() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    set_found(&mut world, URL, "europe", Some(proxy(ID, "europe", 62)));
    assert_eq!(step(&world), "retoken");
    set_found(&mut world, URL, "europe", Some(proxy(ID, "europe", 70)));
    assert_eq!(ready(&plan(&world)), pair("False", "ProxyNotOurs"));
}

#[test]
fn a_secret_that_holds_its_token_completes_it() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    world.secret = secret_holding(ID);
    set_found(&mut world, URL, "europe", Some(proxy(ID, "europe", 58)));
    set_found(&mut world, URL, ID, Some(proxy(ID, "europe", 58)));
    assert_eq!(step(&world), "apply");
    let told = plan(&world).status;
    assert_eq!(told.proxy_id.as_deref(), Some(ID));
    assert!(told.pending.is_none() && told.registered);
}

#[test]
fn an_unsaved_token_is_stored_before_any_other_call() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    world.remembered.unsaved_key = Some(ID.to_owned());
    assert_eq!(step(&world), "store");
}

#[test]
fn a_stored_token_makes_the_registration_the_one_in_use() {
    let mut world = world(object(json!({
        "metadata": { "annotations": { "coder.aplomb.dev/rotate": "1" } } })));
    world.status.pending = Some(pending("europe", 2));
    world.progress.token_stored = Some(ID.to_owned());
    assert_eq!(step(&world), "look");
    set_found(&mut world, URL, ID, Some(proxy(ID, "europe", 0)));
    assert_eq!(step(&world), "apply");
    let told = plan(&world);
    assert_eq!(told.status.proxy_name.as_deref(), Some("europe"));
    assert_eq!(told.status.rotation.honoured.as_deref(), Some("1"));
    assert_eq!(notes(&told), ["ProxyRegistered"]);
}

#[test]
fn a_secret_that_is_there_already_is_adopted_and_not_rotated() {
    let mut world = world(object(json!({})));
    world.secret = secret_holding(ID);
    assert_eq!(step(&world), "look");
    set_found(&mut world, URL, ID, Some(proxy(ID, "europe", 86_400)));
    let told = plan(&world);
    assert_eq!(told.status.proxy_id.as_deref(), Some(ID));
    assert!(told.step.is_none());
    // A proxy with another name is foreign.
    set_found(&mut world, URL, ID, Some(proxy(ID, "asia", 86_400)));
    assert!(plan(&world).status.proxy_id.is_none());
    assert_eq!(step(&world), "look");
}

#[test]
fn a_proxy_of_another_object_is_not_adopted_through_its_secret() {
    let mut world = world(object(json!({})));
    world.secret = secret_holding(ID);
    let theirs = crate::client::WorkspaceProxy {
        icon: format!("/emojis/1f310.png#aplomb-{}", aplomb_api::coder::owner_suffix("v")),
        ..proxy(ID, "europe", 86_400)
    };
    set_found(&mut world, URL, ID, Some(theirs.clone()));
    set_found(&mut world, URL, "europe", Some(theirs));
    let told = plan(&world);
    assert!(told.status.proxy_id.is_none() && told.step.is_none());
    assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
}

#[test]
fn a_name_that_is_no_longer_wanted_is_forgotten_or_taken_back() {
    let other = json!({ "spec": { "bootstrap": { "proxyName": "asia" } } });
    let mut world = world(object(other));
    world.status.pending = Some(pending("europe", 60));
    world.remembered.unrequested_name = Some("europe".to_owned());
    set_found(&mut world, URL, "asia", None);
    let name = plan(&world).status.pending.map(|it| it.name);
    assert_eq!(name.as_deref(), Some("asia"));
    world.remembered.unrequested_name = None;
    set_found(&mut world, URL, "europe", Some(proxy(ID, "europe", 58)));
    let told = plan(&world).status;
    assert!(told.pending.is_none());
    assert_eq!(told.retiring[0].id, ID);
}

#[test]
fn what_a_user_has_to_fix_is_reported() {
    let mut image = world(object(json!({ "spec": { "image": null } })));
    assert_eq!(ready(&plan(&image)), pair("False", "ImageMissing"));
    let mut given = access(URL);
    given.image = Some("registry.example.com/coder:2".to_owned());
    image.access = Some(Ok(given));
    assert_eq!(step(&image), "look");
    let mut secret = world(object(json!({})));
    secret.secret = SecretState::Foreign("it belongs to another".to_owned());
    assert_eq!(ready(&plan(&secret)), pair("False", "SecretNotOurs"));
}

#[test]
fn a_proxy_made_at_the_right_time_is_not_ours_for_that() {
    for icon in [
        "/emojis/1f310.png".to_owned(),
        "/emojis/1f310.png#aplomb-".to_owned(),
        format!("/emojis/1f310.png#aplomb-{}", aplomb_api::coder::owner_suffix("v")),
    ] {
        let mut world = world(object(json!({})));
        world.status.pending = Some(pending("europe", 60));
        let theirs = crate::client::WorkspaceProxy {
            icon,
            ..proxy(ID, "europe", 60)
        };
        set_found(&mut world, URL, "europe", Some(theirs));
        let told = plan(&world);
        assert!(told.step.is_none(), "{:?}", told.step);
        assert!(told.status.pending.is_none() && told.status.retiring.is_empty());
        assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
        assert_eq!(notes(&told), ["ProxyNotOurs"]);
    }
}

#[test]
fn no_name_is_written_down_before_its_token_is_kept() {
    let mut world = world(object(json!({})));
    world.secret_kept = false;
    set_found(&mut world, URL, "europe", None);
    let told = plan(&world);
    assert!(told.needs_secret && told.step.is_none() && told.status.pending.is_none());
    let said = told.conditions.iter().find(|it| it.type_ == "Registered");
    let said = &said.expect("a condition").message;
    assert!(said.contains("coder.aplomb.dev/token"), "{said}");
}

#[test]
fn the_mark_of_an_object_does_not_change_its_display() {
    let mut world = world(object(json!({})));
    world.secret = secret_holding(ID);
    let unmarked = crate::client::WorkspaceProxy {
        icon: "/emojis/1f310.png".to_owned(),
        ..proxy(ID, "europe", 86_400)
    };
    set_found(&mut world, URL, ID, Some(unmarked));
    let plain = plan(&world).status.described;
    set_found(&mut world, URL, ID, Some(proxy(ID, "europe", 86_400)));
    assert_eq!(plan(&world).status.described, plain);
}
