//! What readers of a cache see, and which events listeners get.

mod adversary;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::{Duration, advance};

use super::*;

pub(super) fn made(base: Option<ResourceVersion>, locked: bool) -> WriteReceipt {
    let manager = Arc::from("ours");
    WriteReceipt { base, locked, manager }
}

fn value(name: &str, uid: &str, version: &str, data: &str) -> Value {
    json!({
        "metadata": { "namespace": "n", "name": name, "uid": uid, "resourceVersion": version },
        "data": { "data": data },
    })
}

fn object(name: &str, uid: &str, version: &str, data: &str) -> DecodedObject<ConfigMap> {
    let object = serde_json::from_value(value(name, uid, version, data)).unwrap();
    DecodedObject::Object(Arc::new(object))
}

fn all(objects: Vec<DecodedObject<ConfigMap>>, version: &str) -> WatchUpdate<ConfigMap> {
    WatchUpdate::Relisted(objects, ResourceVersion::parse(version))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("n"), name)
}

fn describe_events(events: &[CacheEvent<ConfigMap>]) -> Vec<String> {
    events.iter().map(|event| format!("{event:?}")).collect()
}

fn data(cache: &Cache<ConfigMap>, name: &str) -> Option<String> {
    let object = cache.get(&key(name))?;
    object.data.as_ref()?.get("data").cloned()
}

/// A cache whose first list had `a` at version 5.
fn listed() -> Cache<ConfigMap> {
    let cache = Cache::new();
    let first = cache.apply_update(all(vec![object("a", "u", "5", "old")], "5"));
    assert_eq!(describe_events(&first), ["Found(n/a)"]);
    cache
}

#[tokio::test(start_paused = true)]
async fn relist_emits_only_changes_and_deletions() {
    let cache = Cache::new();
    let first = ["a", "b", "c"].map(|name| object(name, "u", "5", "old"));
    cache.apply_update(all(first.into(), "5"));
    let again = vec![
        object("a", "u", "5", "old"),
        object("b", "u", "8", "new"),
        object("d", "u", "9", "new"),
    ];
    let events = cache.apply_update(all(again, "9"));
    assert_eq!(describe_events(&events), ["Changed(n/b)", "Added(n/d)", "Deleted(n/c)"]);
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_the_same_name_is_a_deletion_and_an_addition() {
    let cache = listed();
    let events = cache.apply_update(all(vec![object("a", "u2", "9", "new")], "9"));
    assert_eq!(describe_events(&events), ["Deleted(n/a)", "Added(n/a)"]);
}

#[tokio::test(start_paused = true)]
async fn resumed_stream_repeats_emit_no_events() {
    let cache = listed();
    assert!(
        cache
            .apply_update(WatchUpdate::Put(object("a", "u", "5", "old")))
            .is_empty()
    );
    assert!(
        cache
            .apply_update(WatchUpdate::Put(object("a", "u", "4", "older")))
            .is_empty()
    );
    assert_eq!(data(&cache, "a").as_deref(), Some("old"));
}

#[tokio::test(start_paused = true)]
async fn own_write_is_read_until_the_watch_shows_it() {
    let cache = listed();
    cache.record_write(&value("a", "u", "8", "ours"), made(None, false));
    assert_eq!(data(&cache, "a").as_deref(), Some("ours"));
    cache.apply_update(WatchUpdate::Put(object("a", "u", "7", "theirs")));
    assert_eq!(
        data(&cache, "a").as_deref(),
        Some("ours"),
        "version 7 is older than ours"
    );
    cache.apply_update(WatchUpdate::Put(object("a", "u", "9", "newer")));
    assert_eq!(data(&cache, "a").as_deref(), Some("newer"));
}

#[tokio::test(start_paused = true)]
async fn an_own_creation_is_listed_and_indexed_before_the_watch_shows_it() {
    let cache = listed();
    cache.index("data", |map: &ConfigMap| {
        map.data.iter().flat_map(|data| data.values().cloned()).collect()
    });
    cache.record_write(&value("b", "u2", "8", "old"), made(None, true));
    cache.record_write(&value("a", "u", "9", "moved"), made(None, true));
    assert_eq!(cache.list().len(), 2);
    let found: Vec<String> = cache
        .by_index("data", "old")
        .iter()
        .filter_map(|map| map.metadata.name.clone())
        .collect();
    assert_eq!(found, ["b"], "a no longer has the value, b has it");
}

#[tokio::test(start_paused = true)]
async fn late_answer_overlays_nothing() {
    let cache = listed();
    cache.apply_update(WatchUpdate::Put(object("a", "u", "8", "ours")));
    cache.apply_update(WatchUpdate::Deleted(object("a", "u", "9", "ours")));
    cache.record_write(&value("a", "u", "8", "ours"), made(None, false));
    assert!(cache.get(&key("a")).is_none(), "it was deleted in between");
}

#[tokio::test(start_paused = true)]
async fn an_own_write_out_of_scope_is_dropped_once_the_watch_is_past_it() {
    let cache = listed();
    cache.record_write(&value("z", "u9", "8", "ours"), made(None, false));
    cache.apply_update(WatchUpdate::Bookmark(ResourceVersion::Number(7)));
    assert!(cache.get(&key("z")).is_some());
    cache.apply_update(WatchUpdate::Bookmark(ResourceVersion::Number(8)));
    assert!(cache.get(&key("z")).is_none());
}

#[tokio::test(start_paused = true)]
async fn opaque_versions_are_overlaid_for_thirty_seconds() {
    let cache = listed();
    cache.record_write(&value("a", "u", "x", "ours"), made(None, false));
    advance(Duration::from_secs(29)).await;
    assert_eq!(data(&cache, "a").as_deref(), Some("ours"));
    advance(Duration::from_secs(2)).await;
    assert_eq!(data(&cache, "a").as_deref(), Some("old"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_hidden_and_its_successor_shown() {
    let cache = listed();
    cache.record_delete(&key("a"), "u");
    assert!(cache.get(&key("a")).is_none() && cache.list().is_empty());
    cache.apply_update(WatchUpdate::Put(object("a", "u", "7", "late")));
    assert!(cache.get(&key("a")).is_none(), "an event from before the deletion");
    cache.record_write(&value("a", "u2", "9", "next"), made(None, true));
    assert_eq!(data(&cache, "a").as_deref(), Some("next"));
    cache.apply_update(WatchUpdate::Deleted(object("a", "u", "8", "late")));
    assert_eq!(data(&cache, "a").as_deref(), Some("next"));
}

#[tokio::test(start_paused = true)]
async fn event_before_its_answer_is_still_own() {
    let cache = listed();
    let writing = cache.begin_write(&key("a"));
    assert!(
        cache
            .apply_update(WatchUpdate::Put(object("a", "u", "8", "ours")))
            .is_empty()
    );
    assert_eq!(
        data(&cache, "a").as_deref(),
        Some("ours"),
        "readers see the state at once"
    );
    writing.record_write(
        &value("a", "u", "8", "ours"),
        made(Some(ResourceVersion::Number(5)), true),
    );
    cache.write_answered().await;
    assert_eq!(describe_events(&cache.take_held_events()), ["ChangedByUs(n/a)"]);
}

#[tokio::test(start_paused = true)]
async fn failed_write_makes_held_changes_foreign() {
    let cache = listed();
    let writing = cache.begin_write(&key("a"));
    assert!(
        cache
            .apply_update(WatchUpdate::Put(object("a", "u", "8", "theirs")))
            .is_empty()
    );
    drop(writing);
    assert_eq!(describe_events(&cache.take_held_events()), ["Changed(n/a)"]);
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_locked_writes_is_ours_even_behind_a_relist() {
    let cache = listed();
    cache.record_write(
        &value("a", "u", "7", "one"),
        made(Some(ResourceVersion::Number(5)), true),
    );
    cache.record_write(
        &value("a", "u", "8", "two"),
        made(Some(ResourceVersion::Number(7)), true),
    );
    let events = cache.apply_update(all(vec![object("a", "u", "8", "two")], "9"));
    assert_eq!(describe_events(&events), ["ChangedByUs(n/a)"]);
}

#[tokio::test(start_paused = true)]
async fn unlocked_write_behind_a_relist_is_own_only_if_the_check_passes() {
    let write = |cache: &Cache<ConfigMap>| {
        cache.record_write(
            &value("a", "u", "8", "new"),
            made(Some(ResourceVersion::Number(5)), false),
        );
        describe_events(&cache.apply_update(all(vec![object("a", "u", "8", "new")], "9")))
    };
    assert_eq!(write(&listed()), ["Changed(n/a)"], "without a check");
    for (foreign, expected) in [(true, "Changed(n/a)"), (false, "ChangedByUs(n/a)")] {
        let cache = listed();
        cache.set_foreign_check(move |_, _, _| foreign);
        assert_eq!(write(&cache), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_op_write_does_not_claim_a_foreign_change() {
    let cache = listed();
    let writing = cache.begin_write(&key("a"));
    assert!(
        cache
            .apply_update(WatchUpdate::Put(object("a", "u", "8", "theirs")))
            .is_empty()
    );
    // The write changed nothing, so the server answers with the other writer's version.
    writing.record_write(
        &value("a", "u", "8", "theirs"),
        made(Some(ResourceVersion::Number(5)), false),
    );
    assert_eq!(describe_events(&cache.take_held_events()), ["Changed(n/a)"]);
}

#[tokio::test(start_paused = true)]
async fn applied_creation_is_own_while_no_other_manager_has_fields() {
    let managed = |managers: &[&str]| {
        let mut made = value("b", "u2", "8", "new");
        let entries: Vec<Value> = managers.iter().map(|name| json!({ "manager": name })).collect();
        made["metadata"]["managedFields"] = json!(entries);
        made
    };
    for (managers, expected) in [(&["us"][..], "AddedByUs(n/b)"), (&["us", "them"], "Added(n/b)")] {
        let cache = listed();
        cache.record_write(&managed(managers), made(None, false));
        let events = cache.apply_update(WatchUpdate::Put(object("b", "u2", "8", "new")));
        assert_eq!(describe_events(&events), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_not_shown_as_it_was() {
    let cache = listed();
    let misfit = UndecodableObject {
        key: key("a"),
        version: ResourceVersion::Number(8),
        error: "expected a map".to_owned(),
    };
    let events = cache.apply_update(WatchUpdate::Put(DecodedObject::Unreadable(misfit)));
    assert_eq!(describe_events(&events), ["Unreadable(n/a)"]);
    assert!(cache.get(&key("a")).is_none());
    assert_eq!(cache.unreadable(&key("a")).as_deref(), Some("expected a map"));
    let events = cache.apply_update(WatchUpdate::Put(object("a", "u", "9", "new")));
    assert_eq!(describe_events(&events), ["Changed(n/a)"]);
    assert_eq!(cache.unreadable(&key("a")), None);
}

#[tokio::test(start_paused = true)]
async fn list_is_authoritative_after_a_restore() {
    let cache = listed();
    cache.apply_update(WatchUpdate::Put(object("a", "u", "8", "newer")));
    cache.record_write(&value("a", "u", "9", "ours"), made(None, false));
    cache.record_delete(&key("b"), "u2");
    let events = cache.apply_update(all(vec![object("a", "u", "3", "restored")], "4"));
    assert_eq!(describe_events(&events), ["Changed(n/a)"]);
    assert_eq!(data(&cache, "a").as_deref(), Some("restored"));
    let next = cache.apply_update(WatchUpdate::Put(object("a", "u", "5", "next")));
    assert_eq!(describe_events(&next), ["Changed(n/a)"]);
}

#[tokio::test(start_paused = true)]
async fn children_are_found_by_their_owner() {
    let cache = listed();
    let mut owned = value("child", "u3", "8", "x");
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u" });
    owned["metadata"]["ownerReferences"] = json!([owner]);
    cache.record_write(&owned, made(None, true));
    assert_eq!(cache.owned_by("u").len(), 1, "before the watch has shown it");
    let child = serde_json::from_value(owned).unwrap();
    cache.apply_update(WatchUpdate::Put(DecodedObject::Object(Arc::new(child))));
    assert_eq!(cache.owned_by("u").len(), 1, "and after");
    assert!(cache.owned_by("v").is_empty());
}

/// A view with a list.
#[derive(serde::Deserialize)]
struct Lists {
    metadata: crate::view::ViewMeta,
    #[serde(default)]
    data: Vec<String>,
}

impl View for Lists {
    type Kind = ConfigMap;

    fn meta(&self) -> crate::view::MetaRef<'_> {
        self.metadata.as_ref()
    }
}

#[tokio::test(start_paused = true)]
async fn answer_with_a_null_list_is_recorded() {
    let cache = Cache::<Lists>::new();
    cache.apply_update(WatchUpdate::Relisted(Vec::new(), ResourceVersion::parse("5")));
    let metadata = json!({ "namespace": "n", "name": "a", "uid": "u", "resourceVersion": "6" });
    cache.record_write(&json!({ "metadata": metadata, "data": null }), made(None, true));
    assert!(cache.get(&key("a")).is_some_and(|it| it.data.is_empty()));
}
