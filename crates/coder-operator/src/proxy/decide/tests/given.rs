//! A proxy that the user has registered.

use aplomb_api::coder::conditions as kinds;
use serde_json::json;

use super::scene::*;
use crate::client::CallErrorClass;
use crate::proxy::world::{Observed, Step};
use crate::seen::DeploymentState;
use crate::seen::SecretState;

const IMAGE: Option<&str> = Some("registry.example.com/coder:1");

fn given(image: Option<&str>) -> Observed {
    let mut object = object(json!({}));
    object.metadata.finalizers = None;
    object.spec.bootstrap = None;
    object.spec.primary_access_url = Some(URL.to_owned());
    object.spec.proxy_session_token_secret_ref =
        serde_json::from_value(json!({ "name": "mine", "key": "token" })).expect("a reference");
    object.spec.image = image.map(str::to_owned);
    let mut world = world(object);
    world.seen.entitlements = None;
    world.secret = SecretState::Ours {
        key_name: None,
        whole: true,
    };
    world
}

#[test]
fn pods_are_made_from_what_is_given_and_no_server_is_asked() {
    let mut world = given(IMAGE);
    let Some(Step::Apply(children)) = plan(&world).step else {
        panic!("{:?}", plan(&world).step);
    };
    assert_eq!((children.url.as_str(), children.id), (URL, None));
    assert_eq!(children.secret.name, "mine");
    world.seen.applied = true;
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "NoReplicasReady"));
    world.deployment = Some(DeploymentState {
        replicas: 2,
        ready: 2,
        rolled: true,
    });
    let told = plan(&world);
    assert_eq!(ready(&told), pair("True", "Proven"));
    assert_eq!(says(&told, kinds::REGISTERED), pair("", ""));
}

#[test]
fn what_is_missing_is_said() {
    let mut world = given(IMAGE);
    world.secret = SecretState::Absent;
    assert_eq!(ready(&plan(&world)), pair("False", "SecretPending"));
    let told = plan(&given(None));
    assert_eq!(ready(&told), pair("False", "ImageMissing"));
}

#[test]
fn what_the_operator_had_registered_is_taken_back_when_the_pods_serve() {
    let mut world = given(IMAGE);
    world.status.proxy_id = Some(ID.to_owned());
    world.status.proxy_name = Some("europe".to_owned());
    world.status.binding = Some(binding(URL));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.status.retiring[0].id, ID);
    world.status = told.status;
    world.seen.applied = true;
    assert_eq!(step(&world), "none");
    world.deployment = Some(DeploymentState {
        replicas: 2,
        ready: 2,
        rolled: true,
    });
    assert_eq!(step(&world), "deregister");
}

#[test]
fn a_former_server_that_does_not_answer_holds_up_no_pods() {
    let mut world = given(IMAGE);
    world.status.pending = Some(pending("europe", 60));
    hinders(&mut world, URL, "europe", refused(CallErrorClass::NoAnswer));
    assert_eq!(step(&world), "apply");
    assert!(plan(&world).status.pending.is_some());
}
