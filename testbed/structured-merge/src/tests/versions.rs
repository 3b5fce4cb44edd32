//! Several versions of a resource, and schemas that change under stored owners.

use serde_json::{Value, json};

use super::{Story, V1, conflicts, field_manager, openapi, version, widget, writer};
use crate::managed::entries;
use crate::openapi::Components;
use crate::{FieldManager, Writer};

type Outcome = Result<(), crate::MergeError>;

const V2: &str = "example.com/v2";

fn in_v2(spec: &Value) -> Value {
    let mut object = widget(spec);
    object["apiVersion"] = json!(V2);
    object
}

fn both(custom: bool) -> FieldManager {
    let (v1, mut v2) = (openapi(), openapi());
    v2["properties"]["spec"]["properties"]["tags"]["x-kubernetes-list-type"] = json!("atomic");
    FieldManager::new(
        "Widget",
        &[version(V1, &v1), version(V2, &v2)],
        &Components::new(),
        custom,
    )
}

#[test]
fn owners_in_another_version_conflict_and_lose_there() -> Outcome {
    let manager = both(true);
    let v2 = Writer {
        api_version: V2,
        ..writer("b")
    };
    let live = manager.apply(None, &widget(&json!({"tags": ["x"], "text": "t"})), &writer("a"), false)?;
    let mut live = live;
    live["apiVersion"] = json!(V2);
    let refused = manager.apply(Some(&live), &in_v2(&json!({"text": "u"})), &v2, false);
    assert_eq!(conflicts(refused.as_ref().map_err(Clone::clone)), [".spec.text"]);
    let live = manager.apply(Some(&live), &in_v2(&json!({"tags": ["x", "y"]})), &v2, true)?;
    assert_eq!(live["spec"]["tags"], json!(["x", "y"]));
    let owned = |who: &str| {
        let entry = entries(&live)
            .into_iter()
            .flatten()
            .find(|entry| entry["manager"] == who);
        entry.map(|entry| entry["fieldsV1"]["f:spec"].clone())
    };
    assert_eq!(
        owned("a"),
        Some(json!({"f:tags": {"v:\"x\"": {}}, "f:text": {}})),
        "x is still there"
    );
    assert_eq!(owned("b"), Some(json!({"f:tags": {}})));
    Ok(())
}

#[test]
fn an_applier_that_moves_to_another_version_prunes_in_the_old_one() -> Outcome {
    let manager = both(true);
    let spec = json!({"tags": ["x"], "text": "t"});
    let mut live = manager.apply(None, &widget(&spec), &writer("a"), false)?;
    live["apiVersion"] = json!(V2);
    let v2 = Writer {
        api_version: V2,
        ..writer("a")
    };
    let live = manager.apply(Some(&live), &in_v2(&json!({"text": "t"})), &v2, false)?;
    assert_eq!(live["spec"], json!({"text": "t"}));
    assert_eq!(
        entries(&live).map(Vec::len),
        Some(1),
        "an applier is the same in all versions"
    );
    Ok(())
}

#[test]
fn owners_in_a_version_that_is_gone() {
    let mut live = widget(&json!({"text": "x"}));
    live["metadata"]["uid"] = json!("u");
    live["metadata"]["managedFields"] = json!([{
        "manager": "z", "operation": "Update", "apiVersion": "example.com/v0",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:text": {}}},
    }]);
    let mut new = live.clone();
    new["spec"]["text"] = json!("y");
    for (custom, left) in [(true, 0), (false, 1)] {
        let updated = both(custom).update(Some(&live), new.clone(), &writer("a"));
        assert_eq!(entries(&updated).map_or(0, Vec::len), left, "custom: {custom}");
    }
}

#[test]
fn owners_in_another_group_are_forgotten() -> Outcome {
    let schema = openapi();
    let versions = [version(V1, &schema), version("v1", &schema)];
    let manager = FieldManager::new("Widget", &versions, &Components::new(), false);
    let mut live = manager.apply(None, &widget(&json!({"text": "x"})), &writer("a"), false)?;
    live["apiVersion"] = json!("v1");
    let mut other = widget(&json!({"text": "y"}));
    other["apiVersion"] = json!("v1");
    let core = Writer {
        api_version: "v1",
        ..writer("b")
    };
    let live = manager.apply(Some(&live), &other, &core, false)?;
    assert_eq!(entries(&live).map(Vec::len), Some(1));
    Ok(())
}

#[test]
fn owners_of_parts_own_the_whole_once_it_is_atomic() -> Outcome {
    let mut story = Story::new();
    story.apply("a", json!({"attrs": {"k": "v"}, "tags": ["x"], "ports": [{"port": 1}]}))?;
    let mut atomic = openapi();
    let spec = &mut atomic["properties"]["spec"]["properties"];
    spec["attrs"]["x-kubernetes-map-type"] = json!("atomic");
    spec["tags"]["x-kubernetes-list-type"] = json!("atomic");
    story.manager = field_manager(&atomic);
    story.apply("b", json!({"text": "x"}))?;
    assert_eq!(
        story.owned("a"),
        json!({
            "f:attrs": {}, "f:tags": {},
            "f:ports": {r#"k:{"port":1,"proto":"TCP"}"#: {".": {}, "f:port": {}}},
        })
    );
    Ok(())
}
