//! Behaviour of the store in virtual time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn store() -> Store {
    Store::new(Clock::new(Timestamp::UNIX_EPOCH, 1), Window::default(), false)
}

fn key(name: &str) -> Key {
    Key {
        resource: GroupResource::new("", "things"),
        namespace: "ns".into(),
        name: name.into(),
    }
}

fn thing(name: &str, value: i64) -> Value {
    json!({"metadata": {"name": name}, "value": value})
}

fn put(store: &Store, name: &str, value: i64) -> Arc<Value> {
    let old = store.get(&key(name));
    store
        .commit(&key(name), old.as_ref(), Some(thing(name, value)))
        .expect("nobody else writes")
}

fn drain(cursor: &mut Cursor) -> Vec<u64> {
    match cursor.advance() {
        Next::Changes(changes) => changes.iter().map(|change| change.revision).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_equal_write_takes_no_revision() {
    let store = store();
    let first = put(&store, "a", 1);
    let again = put(&store, "a", 1);
    assert_eq!(first, again);
    assert_eq!(store.revision(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_write_on_an_old_state_is_refused() {
    let store = store();
    let first = put(&store, "a", 1);
    put(&store, "a", 2);
    let moved = store.commit(&key("a"), Some(&first), None).expect_err("it moved on");
    assert_eq!(moved.0.expect("still there")["value"], 2);
}

#[tokio::test(start_paused = true)]
async fn the_past_is_readable_until_it_is_compacted() {
    let store = store();
    put(&store, "a", 1);
    put(&store, "a", 2);
    put(&store, "b", 1);
    let resource = key("a").resource;
    let past = store.snapshot_at(&resource, 2).expect("inside the window");
    assert_eq!(past.objects.len(), 1);
    assert_eq!(past.objects.values().next().expect("one")["value"], 1);
    store.compact(3);
    assert_eq!(
        store.snapshot_at(&resource, 2).expect_err("gone"),
        Compacted { oldest: 3 }
    );
    assert!(store.follow(&resource, Some(2)).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_writes_in_order_and_survives_a_compaction() {
    let store = store();
    let mut cursor = store
        .follow(&key("a").resource, None)
        .expect("the present is in the window");
    put(&store, "a", 1);
    put(&store, "a", 2);
    assert_eq!(drain(&mut cursor), [2, 3]);
    store.compact(3);
    put(&store, "a", 3);
    assert_eq!(drain(&mut cursor), [4]);
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_woken_by_a_write_and_cut_by_a_restart() {
    let store = store();
    let mut cursor = store
        .follow(&key("a").resource, None)
        .expect("the present is in the window");
    let Next::Idle(_, woken) = cursor.advance() else {
        panic!("nothing happened yet")
    };
    put(&store, "a", 1);
    woken.await;
    assert_eq!(drain(&mut cursor), [2]);
    store.restart();
    assert!(matches!(cursor.advance(), Next::Cut));
}

#[tokio::test(start_paused = true)]
async fn a_slow_follower_is_cut_when_the_window_has_passed_it() {
    let store = store();
    let mut cursor = store
        .follow(&key("a").resource, None)
        .expect("the present is in the window");
    for round in 0..3 {
        for value in 0..150 {
            put(&store, "a", value);
        }
        tokio::time::advance(Duration::from_secs(600 + round)).await;
    }
    put(&store, "a", -1);
    assert!(matches!(cursor.advance(), Next::Cut));
}

#[tokio::test(start_paused = true)]
async fn the_window_keeps_fresh_events_beyond_its_minimum() {
    let store = store();
    for value in 0..300 {
        put(&store, "a", value);
    }
    assert!(store.follow(&key("a").resource, Some(2)).is_ok());
    tokio::time::advance(Duration::from_secs(80)).await;
    put(&store, "a", 300);
    assert!(store.follow(&key("a").resource, Some(2)).is_err());
}

#[tokio::test(start_paused = true)]
async fn hooks_see_every_write() {
    let store = store();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    store.on_commit(Arc::new(move |change| {
        sink.lock().expect("one thread").push(change.revision)
    }));
    put(&store, "a", 1);
    put(&store, "a", 1);
    put(&store, "a", 2);
    assert_eq!(*seen.lock().expect("one thread"), [2, 3]);
}
