//! What is refused, in the server's words.

use serde_json::{Value, json};

use super::{Story, widget, writer};
use crate::MergeError;

fn internal(why: &str) -> MergeError {
    MergeError::Internal(format!(
        "failed to create typed patch object (/w; example.com/v1, Kind=Widget): {why}"
    ))
}

fn bad_request(why: &str) -> MergeError {
    MergeError::BadRequest(why.to_owned())
}

#[test]
fn a_spec_that_does_not_fit_the_schema() {
    for (spec, why) in [
        (json!({"nope": 1}), ".spec.nope: field not declared in schema"),
        (
            json!({"text": 1}),
            ".spec.text: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({"replicas": "x"}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (json!({"attrs": ["x"]}), ".spec.attrs: expected map, got &{[x]}"),
        (json!({"tags": "x"}), ".spec.tags: expected list, got &{x}"),
        (
            json!({"tags": ["x", "x"]}),
            ".spec.tags: duplicate entries for key [=\"x\"]",
        ),
        (
            json!({"tags": [null]}),
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({"tags": [{}]}),
            ".spec.tags: element 0: associative list without keys has an element that's a map type",
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 1, "proto": "TCP"}]}),
            ".spec.ports: duplicate entries for key [port=1,proto=\"TCP\"]",
        ),
        (
            json!({"ports": [1]}),
            ".spec.ports: element 0: associative list with keys may not have non-map elements",
        ),
        (
            json!({"text": 1, "attrs": {"k": false}}),
            "errors:\n  .spec.attrs.k: expected string, got &value.valueUnstructured{Value:false}\n  .spec.text: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ] {
        assert_eq!(Story::new().apply("a", spec).err(), Some(internal(why)));
    }
}

#[test]
fn a_body_of_another_kind_or_with_owners() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut object = widget(&json!({}));
        change(&mut object);
        object
    };
    for (object, why) in [
        (
            with(&|o| o["kind"] = json!("Gadget")),
            "invalid object type: example.com/v1, Kind=Gadget",
        ),
        (
            with(&|o| o["apiVersion"] = json!("v1")),
            "invalid object type: /v1, Kind=Widget",
        ),
        (
            with(&|o| o["apiVersion"] = json!("a/b/c")),
            "invalid object type: /, Kind=",
        ),
        (json!({}), "invalid object type: /, Kind="),
        (
            with(&|o| o["metadata"]["managedFields"] = json!([])),
            "metadata.managedFields must be nil",
        ),
    ] {
        assert_eq!(
            Story::new().apply_object("a", &object, true).err(),
            Some(bad_request(why))
        );
    }
}

#[test]
fn an_update_is_never_refused() {
    let manager = Story::new().manager;
    let live = manager.update(None, widget(&json!({"text": "x"})), &writer("a"));
    let odd = widget(&json!({"nope": {"tags": [1]}}));
    let updated = manager.update(Some(&live), odd.clone(), &writer("b"));
    assert_eq!(updated, odd, "only the owners are lost");
    assert_eq!(manager.update(Some(&live), json!([1]), &writer("b")), json!([1]));
}

#[test]
fn stored_owners_that_cannot_be_read_stop_an_apply() {
    let mut story = Story::new();
    let mut live = widget(&json!({}));
    live["metadata"]["managedFields"] = json!([{"operation": "Guess"}]);
    story.live = Some(live);
    let why = "failed to decode managed fields: operation must be `Apply` or `Update`";
    assert_eq!(
        story.apply("a", json!({})).err(),
        Some(MergeError::Internal(why.to_owned()))
    );
}
