//! Which events pass a lens.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;

fn map(change: impl FnOnce(&mut Value)) -> Arc<ConfigMap> {
    let mut map = json!({
        "metadata": { "name": "a", "uid": "u", "resourceVersion": "1", "generation": 1 },
        "data": { "read": "x", "beside": "x" },
    });
    change(&mut map);
    Arc::new(serde_json::from_value(map).unwrap())
}

fn changed(change: impl FnOnce(&mut Value), own: Option<&str>) -> CacheEvent<ConfigMap> {
    CacheEvent::Changed {
        old: map(|_| {}),
        new: map(change),
        own: own.map(Arc::from),
    }
}

fn data_predicate() -> Predicate<ConfigMap> {
    Predicate::changed_by(|map: &ConfigMap| map.data.as_ref()?.get("read").cloned())
}

fn set(path: &str, value: Value) -> CacheEvent<ConfigMap> {
    changed(
        |map| {
            let (parent, name) = path.rsplit_once('/').unwrap();
            map.pointer_mut(parent).unwrap()[name] = value;
        },
        None,
    )
}

#[test]
fn change_passes_only_if_it_is_read() {
    let lens = data_predicate();
    assert_eq!(
        lens.evaluate(&set("/data/read", json!("y")), "us"),
        PredicateResult::Pass
    );
    assert_eq!(
        lens.evaluate(&set("/data/beside", json!("y")), "us"),
        PredicateResult::Unchanged
    );
    let everything = Predicate::always();
    assert_eq!(
        everything.evaluate(&set("/data/beside", json!("y")), "us"),
        PredicateResult::Pass
    );
}

#[test]
fn deletion_passes_every_predicate() {
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o" }]);
    for (path, value) in [
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("/metadata/finalizers", json!(["example.com/hold"])),
        ("/metadata/ownerReferences", owner),
        ("/metadata/uid", json!("another")),
    ] {
        for lens in [
            data_predicate(),
            Predicate::generation_changed(),
            Predicate::spec_or_metadata_changed(),
        ] {
            assert_eq!(
                lens.evaluate(&set(path, value.clone()), "us"),
                PredicateResult::Pass,
                "{path}"
            );
        }
    }
    let old = map(|_| {});
    assert_eq!(
        data_predicate().evaluate(&CacheEvent::Deleted { old }, "us"),
        PredicateResult::Pass
    );
}

#[test]
fn unreadable_object_passes() {
    let event = CacheEvent::Unreadable {
        key: crate::ObjectKey::new(None, "a"),
        error: String::new(),
        last: None,
    };
    assert_eq!(data_predicate().evaluate(&event, "us"), PredicateResult::Pass);
}

#[test]
fn a_kind_without_a_generation_is_not_hidden_behind_it() {
    let lens = Predicate::generation_changed();
    let same = set("/data/read", json!("y"));
    assert_eq!(lens.evaluate(&same, "us"), PredicateResult::Unchanged);
    let without = |map: &mut Value| map["metadata"]["generation"] = Value::Null;
    let event = CacheEvent::Changed {
        old: map(without),
        new: map(without),
        own: None,
    };
    assert_eq!(lens.evaluate(&event, "us"), PredicateResult::Pass);
}

#[test]
fn write_is_own_only_for_its_manager() {
    let event = changed(|map| map["data"]["read"] = json!("y"), Some("us"));
    assert_eq!(data_predicate().evaluate(&event, "us"), PredicateResult::Own);
    assert_eq!(data_predicate().evaluate(&event, "them"), PredicateResult::Pass);
}
