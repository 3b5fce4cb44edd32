//! A proxy that the user has registered.

use aplomb_api::coder::conditions as kinds;
use serde_json::json;

use super::fixture::*;
use crate::children_state::{DeploymentState, SecretState};
use crate::client::CallErrorClass;
use crate::workspace_proxy::{Observed, Step};

const IMAGE: Option<&str> = Some("registry.example.com/coder:1");

fn unmanaged(image: Option<&str>) -> Observed {
    let mut object = object(json!({}));
    object.metadata.finalizers = None;
    object.spec.bootstrap = None;
    object.spec.primary_access_url = Some(URL.to_owned());
    object.spec.proxy_session_token_secret_ref =
        serde_json::from_value(json!({ "name": "mine", "key": "token" })).expect("a reference");
    object.spec.image = image.map(str::to_owned);
    let mut world = world(object);
    world.progress.entitlements = None;
    world.secret = SecretState::Owned {
        key_name: None,
        intact: true,
    };
    world
}

#[test]
fn pods_are_made_from_what_is_given_and_no_server_is_called() {
    let mut world = unmanaged(IMAGE);
    let Some(Step::Apply(children)) = plan(&world).step else {
        panic!("{:?}", plan(&world).step);
    };
    assert_eq!((children.url.as_str(), children.id), (URL, None));
    assert_eq!(children.secret.name, "mine");
    world.progress.applied = true;
    let told = plan(&world);
    assert_eq!(ready(&told), pair("False", "NoReplicasReady"));
    world.deployment = Some(DeploymentState {
        replicas: 2,
        ready: 2,
        rolled: true,
    });
    let told = plan(&world);
    assert_eq!(ready(&told), pair("True", "Proven"));
    assert_eq!(condition(&told, kinds::REGISTERED), pair("", ""));
}

#[test]
fn what_is_missing_is_reported() {
    let mut world = unmanaged(IMAGE);
    world.secret = SecretState::Absent;
    assert_eq!(ready(&plan(&world)), pair("False", "SecretPending"));
    let told = plan(&unmanaged(None));
    assert_eq!(ready(&told), pair("False", "ImageMissing"));
}

#[test]
fn what_the_operator_had_registered_is_taken_back_when_the_pods_serve() {
    let mut world = unmanaged(IMAGE);
    world.status.proxy_id = Some(ID.to_owned());
    world.status.proxy_name = Some("europe".to_owned());
    world.status.binding = Some(binding(URL));
    let told = plan(&world);
    assert!(told.step.is_none());
    assert_eq!(told.status.retiring[0].id, ID);
    world.status = told.status;
    world.progress.applied = true;
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
    let mut world = unmanaged(IMAGE);
    world.status.pending = Some(pending("europe", 60));
    set_blocked(&mut world, URL, "europe", refused_call(CallErrorClass::NoAnswer));
    assert_eq!(step(&world), "apply");
    assert!(plan(&world).status.pending.is_some());
}
