//! The account with its lock, and permits that are dropped.

use std::time::Duration;

use aplomb::ObjectKey;
use http::HeaderValue;

use super::*;

const KEYS: &str = "/api/v2/organizations/3c9e/provisionerkeys";

fn object(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "CoderProvisioner".into(),
        key: ObjectKey::new(Some("default"), name),
    }
}

/// An account, and those it has told.
fn account() -> (Account, Arc<Mutex<Vec<ObjectRef>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let tell = move |who: &ObjectRef| heard.lock().expect("told").push(who.clone());
    (Account::new("coder.example.com", Arc::new(tell)), told)
}

fn answer(remaining: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("date", "Thu, 08 Jul 2021 18:27:20 GMT"),
        ("x-ratelimit-limit", "3"),
        ("x-ratelimit-remaining", remaining),
        ("x-ratelimit-reset", "1625768849"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

fn grant(account: &Account, name: &str, now: Instant) -> Option<Permit> {
    match account.turn(&object(name), CallPriority::Write, KEYS, now) {
        Turn::Now(permit) => Some(permit),
        Turn::Later { .. } => None,
    }
}

#[test]
fn waiters_for_the_first_answer_are_notified() {
    let (account, told) = account();
    let now = Instant::now();
    let first = grant(&account, "a", now).expect("the first call");
    for name in ["b", "c", "d"] {
        assert!(grant(&account, name, now).is_none(), "{name}");
    }
    let later = now + Duration::from_millis(50);
    first.record_answer(200, &answer("2"), now, later, Timestamp::UNIX_EPOCH);
    assert_eq!(*told.lock().expect("told"), [object("b"), object("c")]);
    assert!(grant(&account, "d", later).is_none());
    assert!(grant(&account, "c", later).is_some());
}

#[test]
fn a_permit_that_is_dropped_is_given_back_and_one_without_an_answer_is_not() {
    let (account, _) = account();
    let now = Instant::now();
    let first = grant(&account, "a", now).expect("the first call");
    first.record_answer(200, &answer("2"), now, now, Timestamp::UNIX_EPOCH);
    drop(grant(&account, "b", now).expect("a second"));
    grant(&account, "b", now).expect("a second again").record_no_answer();
    let third = grant(&account, "c", now);
    assert!(third.is_some());
    assert!(grant(&account, "d", now).is_none());
}

#[test]
fn snapshots_show_endpoints_without_names() {
    let (account, _) = account();
    let now = Instant::now();
    let one = account.turn(&object("a"), CallPriority::Delete, &format!("{KEYS}/team-red"), now);
    let two = account.turn(&object("b"), CallPriority::Delete, &format!("{KEYS}/team-blue"), now);
    assert!(matches!((&one, &two), (Turn::Now(_), Turn::Now(_))));
    let shown = account.snapshot(now);
    assert_eq!(shown.target, "coder.example.com");
    assert_eq!(shown.lanes.len(), 1);
    let lane = &shown.lanes[0];
    assert_eq!(lane.name, "/api/v2/organizations/*/provisionerkeys/*");
    assert_eq!((lane.in_flight, lane.waiting), (2, 0));
}

#[test]
fn an_object_that_is_gone_leaves_its_place() {
    let (account, told) = account();
    let now = Instant::now();
    let first = grant(&account, "a", now);
    assert!(grant(&account, "b", now).is_none());
    account.remove(&object("b"));
    drop(first);
    assert!(told.lock().expect("told").is_empty());
    assert_eq!(account.snapshot(now).lanes[0].waiting, 0);
}
