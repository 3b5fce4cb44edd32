//! From nothing to a registration in use.

use aplomb_api::coder::conditions as kinds;
use serde_json::json;

use super::scene::*;
use crate::client::CallErrorClass;
use crate::ending::End;
use crate::proxy::world::Progress;
use crate::seen::SecretState;

#[test]
fn the_finalizer_and_the_licence_come_first() {
    let bare = object(json!({ "metadata": { "finalizers": [] } }));
    assert_eq!(step(&world(bare)), "finalize");
    let mut unasked = world(object(json!({})));
    unasked.seen = Progress::default();
    assert_eq!(step(&unasked), "entitlements");
}

#[test]
fn a_name_is_written_down_once_nobody_has_it() {
    let mut world = world(object(json!({})));
    assert_eq!(step(&world), "look");
    shows(&mut world, URL, "europe", None);
    let told = plan(&world);
    let pending = told.status.pending.expect("a name");
    assert_eq!((pending.name.as_str(), pending.since), ("europe", ago(0)));
    assert!(told.step.is_none());
    assert_eq!(told.end, End::Again(std::time::Duration::ZERO));
}

#[test]
fn a_name_of_somebody_else_is_left_alone() {
    let mut world = world(object(json!({})));
    shows(&mut world, URL, "europe", Some(proxy("x", "europe", 60)));
    let told = plan(&world);
    assert!(matches!(told.end, End::Rejected { .. }), "{:?}", told.end);
    assert_eq!(
        says(&told, kinds::REGISTERED),
        pair("False", "ProxyNotOurs")
    );
    assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
    assert!(told.status.pending.is_none());
}

#[test]
fn a_name_that_was_written_down_just_now_is_registered_without_a_look() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 0));
    assert_eq!(step(&world), "look");
    world.memory.unasked = Some("europe".to_owned());
    assert_eq!(step(&world), "register");
}

#[test]
fn a_name_that_was_taken_in_between_is_told() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 0));
    world.memory.unasked = Some("europe".to_owned());
    world.seen.hindered = Some(refused(CallErrorClass::Exists));
    let told = plan(&world);
    assert!(told.status.pending.is_none());
    assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
}

#[test]
fn a_name_that_may_have_been_asked_for_before_is_looked_for_again() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    shows(&mut world, URL, "europe", None);
    assert_eq!(step(&world), "register");
    world.seen.hindered = Some(refused(CallErrorClass::Exists));
    let told = plan(&world);
    assert!(told.status.pending.is_some() && told.step.is_none());
}

#[test]
fn a_proxy_made_after_its_name_was_written_down_is_ours_and_gets_a_token() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    shows(&mut world, URL, "europe", Some(proxy(ID, "europe", 62)));
    assert_eq!(step(&world), "retoken");
    shows(&mut world, URL, "europe", Some(proxy(ID, "europe", 70)));
    assert_eq!(ready(&plan(&world)), pair("False", "ProxyNotOurs"));
}

#[test]
fn a_secret_that_holds_its_token_completes_it() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    world.secret = holding(ID);
    shows(&mut world, URL, "europe", Some(proxy(ID, "europe", 58)));
    shows(&mut world, URL, ID, Some(proxy(ID, "europe", 58)));
    assert_eq!(step(&world), "apply");
    let told = plan(&world).status;
    assert_eq!(told.proxy_id.as_deref(), Some(ID));
    assert!(told.pending.is_none() && told.registered);
}

#[test]
fn a_token_in_hand_is_stored_before_anything_else_is_asked() {
    let mut world = world(object(json!({})));
    world.status.pending = Some(pending("europe", 60));
    world.memory.in_hand = Some(ID.to_owned());
    assert_eq!(step(&world), "store");
}

#[test]
fn a_stored_token_makes_the_registration_the_one_in_use() {
    let mut world = world(object(json!({
        "metadata": { "annotations": { "coder.aplomb.dev/rotate": "1" } } })));
    world.status.pending = Some(pending("europe", 2));
    world.seen.made = Some(ID.to_owned());
    assert_eq!(step(&world), "look");
    shows(&mut world, URL, ID, Some(proxy(ID, "europe", 0)));
    assert_eq!(step(&world), "apply");
    let told = plan(&world);
    assert_eq!(told.status.proxy_name.as_deref(), Some("europe"));
    assert_eq!(told.status.rotation.honoured.as_deref(), Some("1"));
    assert_eq!(notes(&told), ["ProxyRegistered"]);
}

#[test]
fn a_secret_that_is_there_already_is_adopted_and_not_rotated() {
    let mut world = world(object(json!({})));
    world.secret = holding(ID);
    assert_eq!(step(&world), "look");
    shows(&mut world, URL, ID, Some(proxy(ID, "europe", 86_400)));
    let told = plan(&world);
    assert_eq!(told.status.proxy_id.as_deref(), Some(ID));
    assert!(told.step.is_none());
    // Under another name it is somebody else's.
    shows(&mut world, URL, ID, Some(proxy(ID, "asia", 86_400)));
    assert!(plan(&world).status.proxy_id.is_none());
    assert_eq!(step(&world), "look");
}

#[test]
fn a_proxy_of_another_object_is_not_adopted_through_its_secret() {
    let mut world = world(object(json!({})));
    world.secret = holding(ID);
    let theirs = crate::client::WorkspaceProxy {
        icon: format!("/emojis/1f310.png#aplomb-{}", aplomb_api::coder::owner_suffix("v")),
        ..proxy(ID, "europe", 86_400)
    };
    shows(&mut world, URL, ID, Some(theirs.clone()));
    shows(&mut world, URL, "europe", Some(theirs));
    let told = plan(&world);
    assert!(told.status.proxy_id.is_none() && told.step.is_none());
    assert_eq!(ready(&told), pair("False", "ProxyNotOurs"));
}

#[test]
fn a_name_that_is_no_longer_wanted_is_forgotten_or_taken_back() {
    let other = json!({ "spec": { "bootstrap": { "proxyName": "asia" } } });
    let mut world = world(object(other));
    world.status.pending = Some(pending("europe", 60));
    world.memory.unasked = Some("europe".to_owned());
    shows(&mut world, URL, "asia", None);
    let name = plan(&world).status.pending.map(|it| it.name);
    assert_eq!(name.as_deref(), Some("asia"));
    world.memory.unasked = None;
    shows(&mut world, URL, "europe", Some(proxy(ID, "europe", 58)));
    let told = plan(&world).status;
    assert!(told.pending.is_none());
    assert_eq!(told.retiring[0].id, ID);
}

#[test]
fn what_a_person_has_to_mend_is_said() {
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
        shows(&mut world, URL, "europe", Some(theirs));
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
    world.held = false;
    shows(&mut world, URL, "europe", None);
    let told = plan(&world);
    assert!(told.unheld && told.step.is_none() && told.status.pending.is_none());
    let said = told.conditions.iter().find(|it| it.kind == "Registered");
    let said = &said.expect("a condition").message;
    assert!(said.contains("coder.aplomb.dev/token"), "{said}");
}

#[test]
fn the_mark_of_an_object_is_no_difference_in_looks() {
    let mut world = world(object(json!({})));
    world.secret = holding(ID);
    let unmarked = crate::client::WorkspaceProxy {
        icon: "/emojis/1f310.png".to_owned(),
        ..proxy(ID, "europe", 86_400)
    };
    shows(&mut world, URL, ID, Some(unmarked));
    let plain = plan(&world).status.described;
    shows(&mut world, URL, ID, Some(proxy(ID, "europe", 86_400)));
    assert_eq!(plan(&world).status.described, plain);
}
