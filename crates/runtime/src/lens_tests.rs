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

fn reading() -> Predicate<ConfigMap> {
    Predicate::fields(|map: &ConfigMap| map.data.as_ref()?.get("read").cloned())
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
fn a_change_passes_if_it_is_read_and_is_noise_if_not() {
    let lens = reading();
    assert_eq!(
        lens.sees(&set("/data/read", json!("y")), "us"),
        PredicateResult::Pass
    );
    assert_eq!(
        lens.sees(&set("/data/beside", json!("y")), "us"),
        PredicateResult::Noise
    );
    let everything = Predicate::everything();
    assert_eq!(
        everything.sees(&set("/data/beside", json!("y")), "us"),
        PredicateResult::Pass
    );
}

#[test]
fn the_end_of_an_object_passes_every_lens() {
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o" }]);
    for (path, value) in [
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("/metadata/finalizers", json!(["example.com/hold"])),
        ("/metadata/ownerReferences", owner),
        ("/metadata/uid", json!("another")),
    ] {
        for lens in [reading(), Predicate::generation(), Predicate::desired()] {
            assert_eq!(
                lens.sees(&set(path, value.clone()), "us"),
                PredicateResult::Pass,
                "{path}"
            );
        }
    }
    let old = map(|_| {});
    assert_eq!(
        reading().sees(&CacheEvent::Deleted { old }, "us"),
        PredicateResult::Pass
    );
}

#[test]
fn what_cannot_be_read_passes() {
    let event = CacheEvent::Unreadable {
        key: crate::ObjectKey::new(None, "a"),
        error: String::new(),
        last: None,
    };
    assert_eq!(reading().sees(&event, "us"), PredicateResult::Pass);
}

#[test]
fn a_kind_without_a_generation_is_not_hidden_behind_it() {
    let lens = Predicate::generation();
    let same = set("/data/read", json!("y"));
    assert_eq!(lens.sees(&same, "us"), PredicateResult::Noise);
    let without = |map: &mut Value| map["metadata"]["generation"] = Value::Null;
    let event = CacheEvent::Changed {
        old: map(without),
        new: map(without),
        own: None,
    };
    assert_eq!(lens.sees(&event, "us"), PredicateResult::Pass);
}

#[test]
fn a_write_is_own_to_its_manager_and_news_to_others() {
    let event = changed(|map| map["data"]["read"] = json!("y"), Some("us"));
    assert_eq!(reading().sees(&event, "us"), PredicateResult::Own);
    assert_eq!(reading().sees(&event, "them"), PredicateResult::Pass);
}
