//! Who owns what after an apply, and what becomes of what nobody states any more.

use serde_json::json;

use super::{Story, conflicts, widget, writer};

type Outcome = Result<(), crate::MergeError>;

#[test]
fn equal_values_have_several_owners() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"text": "x", "replicas": 2}))?;
    story.apply("b", json!({"text": "x"}))?;
    story.apply("a", json!({"replicas": 2}))?;
    assert_eq!(story.spec(), json!({"text": "x", "replicas": 2}), "b still states it");
    story.apply("b", json!({}))?;
    assert_eq!(story.spec(), json!({"replicas": 2}), "the last owner left");
    assert_eq!(story.owned("b"), json!({}), "an empty spec is stated too");
    Ok(())
}

#[test]
fn another_value_is_a_conflict_unless_forced() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"text": "x", "replicas": 2}))?;
    assert_eq!(conflicts(story.apply("b", json!({"text": "y"}))), [".spec.text"]);
    assert_eq!(story.spec()["text"], "x");
    story.force("b", json!({"text": "y"}))?;
    assert_eq!(story.spec()["text"], "y");
    assert_eq!(story.owned("a"), json!({"f:replicas": {}}));
    story.force("b", json!({"text": "y", "replicas": 3}))?;
    assert_eq!(story.owned("a"), json!(null), "who owns nothing is forgotten");
    Ok(())
}

#[test]
fn an_update_takes_only_what_it_changes() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"text": "x", "replicas": 2}))?;
    story.update("u", json!({"text": "x", "replicas": 3, "tags": ["t"]}));
    assert_eq!(story.owned("a"), json!({"f:text": {}}));
    assert_eq!(
        story.owned("u"),
        json!({"f:replicas": {}, "f:tags": {".": {}, "v:\"t\"": {}}})
    );
    assert_eq!(
        conflicts(story.apply("a", json!({"text": "x", "replicas": 2}))),
        [".spec.replicas"]
    );
    Ok(())
}

#[test]
fn what_an_update_removes_is_nobodys() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"text": "x", "replicas": 2}))?;
    story.update("u", json!({"replicas": 2}));
    assert_eq!(story.owned("a"), json!({"f:replicas": {}}));
    assert_eq!(story.owned("u"), json!(null));
    Ok(())
}

#[test]
fn an_applier_does_not_remove_what_it_never_stated() -> Outcome {
    let mut story = Story::new();
    story.update("u", json!({"attrs": {"k": "v"}}));
    story.apply("a", json!({"attrs": {"l": "w"}, "text": "x"}))?;
    story.apply("a", json!({"text": "x"}))?;
    assert_eq!(story.spec(), json!({"attrs": {"k": "v"}, "text": "x"}));
    Ok(())
}

#[test]
fn atomic_containers_have_one_owner() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"colour": {"r": "1"}, "plain": ["x"]}))?;
    assert_eq!(story.owned("a"), json!({"f:colour": {}, "f:plain": {}}));
    let refused = story.apply("b", json!({"colour": {"g": "2"}, "plain": ["x", "y"]}));
    assert_eq!(conflicts(refused), [".spec.colour", ".spec.plain"]);
    story.force("b", json!({"colour": {"g": "2"}}))?;
    assert_eq!(story.spec()["colour"], json!({"g": "2"}));
    Ok(())
}

#[test]
fn what_has_no_schema_is_owned_field_by_field_and_lists_whole() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"free": {"x": {"y": 1}, "l": [1, 2]}}))?;
    assert_eq!(
        story.owned("a"),
        json!({"f:free": {"f:l": {}, "f:x": {".": {}, "f:y": {}}}})
    );
    Ok(())
}

#[test]
fn null_and_empty_are_stated() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"attrs": {}, "text": null, "tags": [], "plain": []}))?;
    assert_eq!(story.owned("a"), json!({"f:attrs": {}, "f:text": {}, "f:plain": {}}));
    assert_eq!(
        story.spec(),
        json!({"attrs": {}, "text": null, "tags": [], "plain": []})
    );
    Ok(())
}

#[test]
fn a_container_nobody_states_any_more_goes_as_a_whole() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"attrs": {"k": "v"}, "ports": [{"port": 80}], "text": "x"}))?;
    story.apply("a", json!({"text": "x"}))?;
    assert_eq!(story.spec(), json!({"text": "x"}));
    Ok(())
}

#[test]
fn finalizers_and_owners_are_shared_piece_by_piece() -> Outcome {
    let mut story = Story::new();
    let with = |finalizer: &str, uid: &str| {
        let mut object = widget(&json!({}));
        object["metadata"]["finalizers"] = json!([finalizer]);
        object["metadata"]["ownerReferences"] = json!([{"uid": uid, "name": "o"}]);
        object
    };
    story.apply_object("a", &with("example.com/a", "1"), false)?;
    story.apply_object("b", &with("example.com/b", "2"), false)?;
    let live = story.apply("b", json!({}))?;
    assert_eq!(
        live["metadata"]["finalizers"],
        json!(["example.com/a"]),
        "b forgot to repeat its own"
    );
    assert_eq!(live["metadata"]["ownerReferences"], json!([{"uid": "1", "name": "o"}]));
    Ok(())
}

#[test]
fn status_is_nobodys_through_the_object_and_spec_through_status() -> Outcome {
    let mut story = Story::new();
    let without_status = |live: &serde_json::Value| {
        let mut live = live.clone();
        live.as_object_mut().map(|live| live.remove("status"));
        live
    };
    let mut object = widget(&json!({"text": "x"}));
    object["status"] = json!({"phase": "Ready"});
    story.apply_object("a", &object, false)?;
    assert_eq!(story.owned("a"), json!({"f:text": {}}));
    story.live = story.live.map(|live| without_status(&live));
    let status = crate::Writer {
        subresource: "status",
        ..writer("a")
    };
    let both = story.manager.apply(story.live.as_ref(), &object, &status, false)?;
    story.live = Some(both);
    let entries = &story.live.as_ref().expect("applied")["metadata"]["managedFields"];
    let brief: Vec<_> = entries
        .as_array()
        .into_iter()
        .flatten()
        .map(|e| (&e["subresource"], &e["fieldsV1"]))
        .collect();
    assert_eq!(
        brief,
        [
            (&json!(null), &json!({"f:spec": {"f:text": {}}})),
            (&json!("status"), &json!({"f:status": {"f:phase": {}}})),
        ]
    );
    Ok(())
}
