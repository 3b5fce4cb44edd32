//! A new key before the old one goes.

use serde_json::json;

use super::fixture::*;
use crate::children_state::SecretState;
use crate::provisioner::{Observed, Plan, Step};

/// Why a rotation begins, and the name it takes.
fn rotation_of(plan: &Plan) -> (Option<&str>, Option<&str>) {
    let name = plan.status.pending.as_ref().map(|it| it.name.as_str());
    (plan.status.rotation.reason.as_deref(), name)
}

#[test]
fn what_is_as_it_should_be_stays() {
    let told = plan(&running(json!({}), "team", 2));
    assert!(told.step.is_none());
    assert_eq!(rotation_of(&told), (None, None));
    assert_eq!(condition(&told, "Ready"), Some(("True", "Proven")));
    assert_eq!(told.status.daemons.as_deref(), Some("2/2"));
}

#[test]
fn every_drift_requests_a_new_key_and_keeps_the_old_one() {
    let rotate = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "now" } } });
    let cases = [
        (
            json!({ "spec": { "tags": { "size": "big" } } }),
            "TagsChanged",
            numbered_key_name(1),
        ),
        (
            json!({ "spec": { "key": { "name": "other" } } }),
            "NameChanged",
            aplomb_api::coder::key_name("other", "u", 0),
        ),
        (
            json!({ "spec": { "key": { "rotateAfter": "1h" } } }),
            "Aged",
            numbered_key_name(1),
        ),
        (rotate, "Asked", numbered_key_name(1)),
    ];
    for (change, reason, name) in cases {
        let told = plan(&running(change, "team", 2));
        assert_eq!(rotation_of(&told), (Some(reason), Some(&*name)));
        assert_eq!(told.status.key.as_ref().map(|it| it.name.as_str()), Some("team"));
        assert_eq!(
            condition(&told, "ProvisionerKeyReady"),
            Some(("True", "ProvisionerKeyReady"))
        );
    }
}

#[test]
fn an_annotation_is_honored_once() {
    let change = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "now" } } });
    let mut world = running(change, "team", 2);
    world.status.rotation.honoured = Some("now".to_owned());
    assert_eq!(rotation_of(&plan(&world)), (None, None));
}

#[test]
fn a_key_that_another_client_deleted_is_replaced() {
    let mut world = running(json!({}), "team", 2);
    world.progress.keys = [(place(), Ok(listed(Vec::new())))].into();
    let told = plan(&world);
    assert_eq!(rotation_of(&told), (Some("KeyVanished"), Some(&*numbered_key_name(1))));
    assert!(told.status.key.is_none());
    assert_eq!(told.status.retiring.len(), 1);
}

#[test]
fn a_list_from_before_the_key_was_made_is_ignored() {
    let mut world = running(json!({}), "team", 2);
    world.progress.keys = [(place(), Ok(listed(Vec::new())))].into();
    world.status.key.as_mut().expect("a key").since = ago(0);
    assert_eq!(rotation_of(&plan(&world)), (None, None));
}

#[test]
fn a_lost_secret_is_replaced_and_the_old_key_stays_for_running_daemons() {
    let mut world = running(json!({}), "team", 2);
    world.secret = SecretState::Absent;
    let told = plan(&world);
    assert_eq!(rotation_of(&told), (Some("SecretLost"), Some(&*numbered_key_name(1))));
    assert!(told.status.key.is_some());
}

#[test]
fn another_url_of_the_same_server_does_not_rotate() {
    let mut world = running(json!({}), "team", 2);
    let key = world.status.key.as_mut().expect("a key");
    key.binding.server_url = "http://192.0.2.1:3000".to_owned();
    key.id = Some("id-of-team".to_owned());
    let told = plan(&world);
    assert_eq!(rotation_of(&told), (None, None));
    assert_eq!(told.status.key.expect("a key").binding.server_url, URL);
}

#[test]
fn another_server_is_a_reason() {
    let mut world = running(json!({}), "team", 2);
    let key = world.status.key.as_mut().expect("a key");
    key.binding.server_url = "https://old.example.com".to_owned();
    key.id = Some("another-id".to_owned());
    assert_eq!(rotation_of(&plan(&world)).0, Some("ServerChanged"));
}

/// A rotation whose new key is in use, while `old` and `new` daemons are connected.
fn during_rotation(old: usize, new: usize) -> Observed {
    let mut world = running(json!({}), "team-1", new);
    world.status.rotation.sequence = 1;
    world.status.retiring = vec![aplomb_api::coder::RetiringKey {
        key: key("team"),
        retired: ago(30),
        replaced: None,
        used: true,
    }];
    let both = vec![daemons("team", old), daemons("team-1", new)];
    world.progress.daemons = [(place(), Ok(listed(both)))].into();
    world
}

#[test]
fn an_old_key_goes_when_the_new_one_has_all_daemons_and_it_has_none() {
    assert!(matches!(plan(&during_rotation(0, 2)).step, Some(Step::Delete(key)) if key.name == "team"));
    for (old, new) in [(2, 0), (1, 1), (1, 2), (0, 1)] {
        let told = plan(&during_rotation(old, new));
        assert!(told.step.is_none(), "{old} {new} {:?}", told.step);
        assert_eq!(told.status.retiring.len(), 1);
    }
}

#[test]
fn a_rotation_takes_nothing_back_while_daemons_of_the_old_key_serve() {
    let told = plan(&during_rotation(2, 0));
    assert_eq!(condition(&told, "Ready"), Some(("True", "Proven")));
    assert_eq!(told.status.daemons.as_deref(), Some("2/2"));
    let told = plan(&during_rotation(0, 1));
    assert_eq!(condition(&told, "Ready"), Some(("False", "SomeConnected")));
}

#[test]
fn a_daemon_that_does_not_end_keeps_an_old_key_only_for_its_grace() {
    let mut world = during_rotation(1, 2);
    world.status.retiring[0].retired = ago(80_000);
    let begun = plan(&world);
    assert!(begun.step.is_none(), "{:?}", begun.step);
    assert_eq!(begun.status.retiring[0].replaced, Some(ago(0)));
    world.status.retiring[0].replaced = Some(ago(660));
    assert!(matches!(plan(&world).step, Some(Step::Delete(_))));
}

#[test]
fn while_pods_are_being_replaced_no_grace_runs() {
    let mut world = during_rotation(1, 2);
    world.deployment.as_mut().expect("a deployment").rolled = false;
    assert_eq!(plan(&world).status.retiring[0].replaced, None);
}

#[test]
fn an_old_key_stays_while_the_new_one_has_no_daemon() {
    let mut world = during_rotation(2, 0);
    world.status.retiring[0].retired = ago(80_000);
    assert!(plan(&world).step.is_none());
}

#[test]
fn a_deleted_key_is_no_longer_claimed() {
    let mut world = during_rotation(0, 2);
    world.progress.deleted = vec![key("team")];
    let told = plan(&world);
    assert!(told.status.retiring.is_empty());
    assert_eq!(condition(&told, "Ready"), Some(("True", "Proven")));
}

#[test]
fn a_second_rotation_takes_the_next_number() {
    let mut world = during_rotation(2, 2);
    world.status.rotation.honoured = Some("once".to_owned());
    let change = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "twice" } } });
    world.object = std::sync::Arc::new(object(change));
    assert_eq!(rotation_of(&plan(&world)).1, Some(&*numbered_key_name(2)));
}

#[test]
fn pods_that_run_without_being_connected_are_started_again_once() {
    let mut world = running(json!({}), "team", 0);
    world.status.disconnected_since = Some(ago(301));
    let told = plan(&world);
    assert_eq!(told.status.restarted, Some(ago(0)));
    world.status.restarted = Some(ago(0));
    assert!(plan(&world).notes.is_empty());
}

#[test]
fn a_rotation_that_was_lost_on_the_way_is_begun_again() {
    let change = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "now" } } });
    let mut world = running(change, "team", 2);
    world.status = plan(&world).status;
    assert_eq!(world.status.rotation.honoured, None);
    let mut made = listed_key(&numbered_key_name(1));
    made.created_at = now();
    let both = vec![listed_key("team"), made];
    world.progress.keys = [(place(), Ok(listed(both)))].into();
    world.status = plan(&world).status;
    assert!(world.status.pending.is_none());
    assert_eq!(
        rotation_of(&plan(&world)),
        (Some("Asked"), Some(&*numbered_key_name(2)))
    );
}

#[test]
fn a_rotation_is_honored_when_its_key_is_in_the_secret() {
    let change = json!({ "metadata": { "annotations": { "coder.aplomb.dev/rotate": "now" } } });
    let mut world = running(change, "team", 2);
    world.status = plan(&world).status;
    world.secret = secret_holding(&numbered_key_name(1));
    world.progress.keys = [(
        place(),
        Ok(listed(vec![listed_key("team"), listed_key(&numbered_key_name(1))])),
    )]
    .into();
    let done = plan(&world);
    assert_eq!(done.status.rotation.honoured.as_deref(), Some("now"));
    assert!(done.status.pending.is_none(), "{:?}", done.status.pending);
}

#[test]
fn trouble_at_a_former_server_does_not_affect_the_current_one() {
    let mut world = during_rotation(0, 2);
    let old = &mut world.status.retiring[0].key;
    old.binding.server_url = "https://old.example.com".to_owned();
    let old = old.clone();
    world.bound_scopes.insert(crate::provisioner::KeyScope::for_key(&old));
    let elsewhere = crate::provisioner::KeyScope::for_key(&old);
    world.progress.daemons.insert(elsewhere, Ok(listed(Vec::new())));
    world.progress.undeleted = vec![(old, refused_call(crate::client::CallErrorClass::Token))];
    let told = plan(&world);
    assert_eq!(condition(&told, "OperatorAccessReady").map(|it| it.0), Some("True"));
    assert_eq!(condition(&told, "Ready"), Some(("True", "Proven")));
}

#[test]
fn a_key_that_took_the_name_of_ours_is_neither_used_nor_deleted() {
    // In use: ours is gone.
    let mut world = running(json!({}), "team", 2);
    world.status.key.as_mut().expect("a key").id = Some("ours".to_owned());
    assert_eq!(rotation_of(&plan(&world)).0, Some("KeyVanished"));
    // Retired: ours needs no deletion any more.
    let mut world = during_rotation(0, 2);
    world.status.retiring[0].key.id = Some("ours".to_owned());
    world.progress.keys = [(place(), Ok(listed(vec![listed_key("team"), listed_key("team-1")])))].into();
    let told = plan(&world);
    assert!(told.step.is_none(), "{:?}", told.step);
    assert!(told.status.retiring.is_empty());
    assert!(told.notes.iter().any(|it| it.reason == "KeyNotOurs"));
    world.status.retiring[0].key.id = Some("id-of-team".to_owned());
    assert!(matches!(plan(&world).step, Some(Step::Delete(_))));
}
