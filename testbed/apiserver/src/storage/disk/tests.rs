//! What survives in a data directory, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;

use aplomb_apimachinery::clock::Clock;
use aplomb_apimachinery::status::GroupResource;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::storage::{Change, Key, Next, Store, Window};

fn clock() -> Clock {
    Clock::new(Timestamp::UNIX_EPOCH, 1)
}

fn open(path: &Path) -> Store {
    let data = DataDir::open(path).expect("a directory of our own");
    Store::on_disk(clock(), Window::default(), false, data)
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn things() -> GroupResource {
    GroupResource::new("example.com", "things")
}

fn key(name: &str) -> Key {
    Key {
        resource: things(),
        namespace: "ns".into(),
        name: name.into(),
    }
}

fn put(store: &Store, name: &str, value: Option<i64>) -> Arc<Value> {
    let old = store.get(&key(name));
    let new = value.map(|value| json!({"metadata": {"name": name}, "value": value}));
    store.commit(&key(name), old.as_ref(), new).expect("nobody else writes")
}

fn objects(store: &Store) -> BTreeMap<String, Arc<Value>> {
    store.snapshot(&things()).objects
}

/// The revisions after `from`, or `None` when they are gone.
fn events(store: &Store, from: u64) -> Option<Vec<u64>> {
    let mut cursor = store.follow(&things(), Some(from)).ok()?;
    match cursor.advance() {
        Next::Changes(changes) => Some(changes.iter().map(|change| change.revision).collect()),
        _ => Some(Vec::new()),
    }
}

/// A directory with a few writes, a deletion among them, that was closed in an orderly way.
async fn written(path: &Path) -> BTreeMap<String, Arc<Value>> {
    let store = open(path);
    store.open(&things());
    let writes = async {
        put(&store, "a", Some(1));
        put(&store, "b", Some(1));
        put(&store, "a", Some(2));
        put(&store, "b", None);
        put(&store, "c", Some(1));
    };
    store.settled(pin!(writes)).await.expect("there is room");
    objects(&store)
}

#[tokio::test]
async fn objects_the_past_and_watches_go_on_after_a_restart() {
    let directory = directory();
    let before = written(directory.path()).await;
    let store = open(directory.path());
    assert_eq!(store.revision(), 6);
    assert_eq!(objects(&store), before);
    assert_eq!(events(&store, 1), Some(vec![2, 3, 4, 5, 6]));
    assert_eq!(events(&store, 4), Some(vec![5, 6]));
    let past = store.snapshot_at(&things(), 3).expect("not compacted");
    assert_eq!(past.objects["ns/a"]["value"], 1);
    assert_eq!(past.objects["ns/b"]["value"], 1);
    assert_eq!(put(&store, "d", Some(1))["metadata"]["resourceVersion"], "7");
}

#[tokio::test]
async fn what_was_compacted_stays_closed_after_a_restart() {
    let directory = directory();
    written(directory.path()).await;
    let store = open(directory.path());
    store.compact(4);
    drop(store);
    let store = open(directory.path());
    assert!(store.snapshot_at(&things(), 3).is_err());
    assert!(store.snapshot_at(&things(), 4).is_ok());
    assert_eq!(events(&store, 3), None);
    assert_eq!(events(&store, 4), Some(vec![5, 6]));
}

#[tokio::test]
async fn a_resource_that_was_forgotten_leaves_nothing_behind() {
    let directory = directory();
    written(directory.path()).await;
    let store = open(directory.path());
    put(&store, "a", None);
    put(&store, "c", None);
    store.forget(&things());
    drop(store);
    let data = DataDir::open(directory.path()).expect("whole");
    let (_, _, loaded) = data.into_parts();
    assert!(loaded.changes.is_empty() && loaded.floors.is_empty() && loaded.objects.is_empty());
    assert_eq!(loaded.revision, 8);
}

#[tokio::test]
async fn a_watcher_sees_a_write_only_when_it_is_on_disk() {
    let directory = directory();
    let store = open(directory.path());
    store.open(&things());
    let mut cursor = store.follow(&things(), None).expect("the present");
    let write = async { put(&store, "a", Some(1)) };
    store.settled(pin!(write)).await.expect("there is room");
    let Next::Changes(seen) = cursor.advance() else {
        panic!("one write is on disk")
    };
    assert_eq!(seen.len(), 1);
    let Next::Idle(2, woken) = cursor.advance() else {
        panic!("nothing more")
    };
    put(&store, "a", Some(2));
    woken.await;
    assert!(matches!(cursor.advance(), Next::Changes(_)));
}

#[test]
fn only_an_observer_sees_a_write_undone() {
    let directory = directory();
    let store = open(directory.path());
    let (observed, observer) = channel();
    let send = move |change: &Change| observed.send(change.new.is_some()).expect("heard");
    store.replay_and_observe(Arc::new(send));
    let (told, hook) = channel();
    store.on_commit(Arc::new(move |change| {
        told.send(change.revision).expect("heard");
    }));
    put(&store, "a", Some(1));
    assert_eq!(hook.recv(), Ok(2), "it is on disk");
    store.lock().take_back(1);
    assert_eq!(observer.try_iter().collect::<Vec<_>>(), [true, false]);
    assert!(hook.try_recv().is_err());
}

#[tokio::test]
async fn a_directory_is_free_when_its_store_is_gone() {
    let directory = directory();
    for value in 0..50 {
        let store = open(directory.path());
        let write = async { put(&store, "a", Some(value)) };
        store.settled(pin!(write)).await.expect("there is room");
    }
}

#[tokio::test]
async fn a_second_box_is_told_to_go_elsewhere() {
    let directory = directory();
    let store = open(directory.path());
    let refused = DataDir::open(directory.path()).expect_err("in use");
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    drop(store);
    DataDir::open(directory.path()).expect("free again");
}

#[tokio::test]
async fn a_foreign_directory_is_refused_and_left_alone() {
    let directory = directory();
    fs::write(directory.path().join("thesis.txt"), "mine").expect("written");
    let refused = DataDir::open(directory.path()).expect_err("not ours");
    assert!(matches!(refused, Error::Foreign { .. }), "{refused}");
    let names = fs::read_dir(directory.path()).expect("listed").count();
    assert_eq!(names, 1, "nothing was added");
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let directory = directory();
    written(directory.path()).await;
    let marker = directory.path().join("format");
    fs::write(&marker, "aplomb-box-data 2\n").expect("written");
    let refused = DataDir::open(directory.path()).expect_err("from the future");
    assert!(matches!(refused, Error::Newer { found: 2, .. }), "{refused}");
    fs::write(&marker, "something else").expect("written");
    let refused = DataDir::open(directory.path()).expect_err("no format");
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
}

/// Opens a directory whose state file holds other bytes: whole, or refused and left as it is.
fn whole_or_refused(directory: &Path, bytes: &[u8], before: &BTreeMap<String, Arc<Value>>, what: &str) -> bool {
    let state = directory.join("state.redb");
    fs::write(&state, bytes).expect("written");
    match DataDir::open(directory) {
        Ok(data) => {
            let store = Store::on_disk(clock(), Window::default(), false, data);
            assert_eq!(&objects(&store), before, "{what}");
            assert_eq!(store.revision(), 6, "{what}");
            assert_eq!(events(&store, 1), Some(vec![2, 3, 4, 5, 6]), "{what}");
            true
        }
        Err(error) => {
            assert_eq!(fs::read(&state).expect("read"), bytes, "{what}: changed");
            let line = error.to_string();
            assert!(!line.contains('\n'), "{what}: {line}");
            assert!(matches!(error, Error::Damaged { .. }), "{what}: {line}");
            false
        }
    }
}

#[tokio::test]
async fn a_truncated_file_is_refused_and_left_as_it_is() {
    let directory = directory();
    let before = written(directory.path()).await;
    let whole = fs::read(directory.path().join("state.redb")).expect("read");
    let mut rng = fastrand::Rng::with_seed(7);
    let lengths = (0..30).map(|_| rng.usize(0..whole.len()));
    for length in [0, 1, 4095, 4096, whole.len() - 1].into_iter().chain(lengths) {
        let what = format!("{length} of {} bytes", whole.len());
        assert!(
            !whole_or_refused(directory.path(), &whole[..length], &before, &what),
            "{what} were taken for all"
        );
    }
    assert!(whole_or_refused(directory.path(), &whole, &before, "whole"));
}

#[tokio::test]
async fn flipped_bits_are_never_taken_for_data() {
    let directory = directory();
    let before = written(directory.path()).await;
    let whole = fs::read(directory.path().join("state.redb")).expect("read");
    let mut rng = fastrand::Rng::with_seed(11);
    let mut refused = 0;
    for round in 0..100 {
        let mut bytes = whole.clone();
        // Half of them in the first pages, where the library keeps its own books.
        let end = if round % 2 == 0 { 512 } else { bytes.len() };
        let place = rng.usize(0..end);
        bytes[place] ^= 1 << rng.u8(0..8);
        let what = format!("round {round}, byte {place}");
        refused += usize::from(!whole_or_refused(directory.path(), &bytes, &before, &what));
    }
    assert!(refused > 0, "damage is seen");
}

#[tokio::test]
async fn an_older_state_file_is_not_taken_for_the_newest() {
    let directory = directory();
    written(directory.path()).await;
    let state = directory.path().join("state.redb");
    let old = fs::read(&state).expect("read");
    let store = open(directory.path());
    put(&store, "a", Some(3));
    drop(store);
    fs::write(&state, old).expect("written");
    let refused = DataDir::open(directory.path()).expect_err("something was written since");
    assert!(refused.to_string().contains("revision 6"), "{refused}");
}

#[tokio::test]
async fn secrets_are_private_and_stay_the_same() {
    let directory = directory();
    let make = || Ok::<_, std::io::Error>("first".to_owned());
    let kept = |path: &Path| DataDir::open(path).expect("ours").secrets().clone();
    let secrets = kept(directory.path());
    assert_eq!(secrets.get_or_make("token", make).expect("made"), "first");
    let again = kept(directory.path());
    let other = || Ok::<_, std::io::Error>("second".to_owned());
    assert_eq!(again.get_or_make("token", other).expect("kept"), "first");
    assert!(!format!("{again:?}").contains("first"));
    let file = directory.path().join("secrets/token");
    let mode = fs::metadata(file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
