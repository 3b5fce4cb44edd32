//! What many want to know is read once.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::*;
use crate::client::CallErrorClass;

const KEYS: &str = "/provisionerkeys";

fn names(keys: &Timestamped<Vec<crate::client::ProvisionerKey>>) -> Vec<&str> {
    keys.value.iter().map(|key| key.name.as_str()).collect()
}

fn listing(names: &[&str]) -> Said {
    let keys: Vec<_> = names
        .iter()
        .map(|name| format!(r#"{{"id": "{name}", "created_at": "2026-08-17T10:00:00Z", "name": "{name}"}}"#))
        .collect();
    Some((200, format!("[{}]", keys.join(","))))
}

#[tokio::test(start_paused = true)]
async fn a_hundred_concurrent_reads_cost_one_request() {
    let stage = Stage::new();
    let server = stage.server();
    let objects: Vec<_> = (0..100).map(|n| object(&format!("o{n}"))).collect();
    let asks = objects.iter().map(async |who| {
        let asker = stage.caller(who);
        let organization = server.organization(&asker, "default").await?;
        server.keys(&asker, &organization.id, MINUTE).await
    });
    for answer in join_all(asks).await {
        answer.expect("a list");
    }
    assert_eq!(stage.count_requests(&Method::GET, KEYS), 1);
    assert_eq!(stage.calls(), 4, "version, user, organisation, keys");
}

#[tokio::test(start_paused = true)]
async fn a_read_goes_on_when_its_first_caller_is_gone() {
    let stage = Stage::new();
    stage.latency(Duration::from_secs(1));
    let (server, red, blue) = (stage.server(), object("red"), object("blue"));
    let (asker, other) = (stage.caller(&red), stage.caller(&blue));
    let first = server.entitlements(&asker, MINUTE);
    let second = server.entitlements(&other, MINUTE);
    let first = tokio::time::timeout(Duration::from_millis(2500), first);
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_err(), "gone while the third request was under way");
    second.expect("read nevertheless");
    assert_eq!(stage.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_first_caller_does_not_bind_the_others() {
    let stage = Stage::new();
    stage.latency(Duration::from_secs(1));
    let (server, red, blue) = (stage.server(), object("red"), object("blue"));
    let (mut asker, other) = (stage.caller(&red), stage.caller(&blue));
    asker.deadline = Instant::now() + Duration::from_secs(2);
    let both = tokio::join!(server.entitlements(&asker, MINUTE), server.entitlements(&other, MINUTE));
    assert_eq!(error_class(both.0), Some(CallErrorClass::NoAnswer));
    both.1.expect("read nevertheless");
    let late = server.keys(&asker, "o-1", MINUTE).await;
    assert!(is_later(&late), "its time is over");
    assert_eq!(stage.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_read_without_waiters_is_over_and_can_be_made_again() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    server.entitlements(&asker, MINUTE).await.expect("read");
    stage.latency(Duration::from_secs(5));
    let gone = server.keys(&asker, "o-1", MINUTE);
    let gone = tokio::time::timeout(Duration::from_secs(1), gone).await;
    assert!(gone.is_err());
    stage.latency(Duration::from_millis(20));
    let again = tokio::time::timeout(Duration::from_secs(120), ask_until_read(&stage, &server, &red));
    again.await.expect("read in time");
    assert_eq!(stage.count_requests(&Method::GET, KEYS), 2);
}

/// The call that was given up is spent, and the limit of its path is not known yet.
async fn ask_until_read(stage: &Stage, server: &ServerClient, who: &ObjectRef) {
    loop {
        match server.keys(&stage.caller(who), "o-1", MINUTE).await {
            Ok(_) => return,
            Err(Pushback::Later { until, .. }) => tokio::time::sleep_until(until).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_reaches_all_waiters_and_is_not_cached() {
    let stage = Stage::new();
    let server = stage.server();
    let objects: Vec<_> = (0..10).map(|n| object(&format!("o{n}"))).collect();
    stage.play(|request| {
        let keys = request.uri().path().ends_with(KEYS);
        keys.then(|| Some((503, String::new())))
    });
    let ask = async |who: &ObjectRef| server.keys(&stage.caller(who), "o-1", MINUTE).await;
    for answer in join_all(objects.iter().map(ask)).await {
        assert_eq!(error_class(answer), Some(CallErrorClass::Server));
    }
    assert_eq!(stage.count_requests(&Method::GET, KEYS), 1);
    stage.play(|_| None);
    ask(&objects[0]).await.expect("a list");
    assert_eq!(stage.count_requests(&Method::GET, KEYS), 2);
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_known_without_another_list() {
    let stage = Stage::new();
    stage.play(|request| {
        let list = request.method() == Method::GET && request.uri().path().ends_with(KEYS);
        list.then(|| listing(&["old"]))
    });
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    server.keys(&asker, "o-1", MINUTE).await.expect("a list");
    let tags: BTreeMap<_, _> = [("a".to_owned(), "b".to_owned())].into();
    let made = server.create_key(&asker, "o-1", "New", &tags).await;
    assert_eq!(made.expect("made").reveal(), PLAIN);
    server.delete_key(&asker, "o-1", "old").await.expect("gone");
    let keys = server.keys(&asker, "o-1", MINUTE).await.expect("a list");
    assert_eq!(names(&keys), ["new"]);
    assert_eq!(keys.value[0].tags, Some(tags));
    assert_eq!(stage.count_requests(&Method::GET, KEYS), 1);
    let since = MaxAge::Since(Instant::now());
    server.keys(&asker, "o-1", since).await.expect("a list");
    assert_eq!(
        stage.count_requests(&Method::GET, KEYS),
        2,
        "older than what is asked for"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_under_way_during_a_write_has_it() {
    let stage = Stage::new();
    let (server, red, blue) = (stage.server(), object("red"), object("blue"));
    let (asker, other) = (stage.caller(&red), stage.caller(&blue));
    server.keys(&asker, "o-1", MINUTE).await.expect("a list");
    stage.latency(Duration::from_secs(2));
    let now = MaxAge::Since(Instant::now());
    let list = server.keys(&asker, "o-1", now);
    let tags = BTreeMap::new();
    let write = async {
        stage.latency(Duration::from_millis(20));
        loop {
            match server.create_key(&other, "o-1", "new", &tags).await {
                Err(Pushback::Later { until, .. }) => tokio::time::sleep_until(until).await,
                made => return made,
            }
        }
    };
    let (list, write) = tokio::join!(list, write);
    write.expect("made");
    assert_eq!(names(&list.expect("a list")), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_makes_the_list_doubtful() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    for said in [None, Some((502, String::new())), Some((409, String::new()))] {
        server.keys(&asker, "o-1", MINUTE).await.expect("a list");
        let before = stage.count_requests(&Method::GET, KEYS);
        stage.play(move |request| (request.method() == Method::POST).then(|| said.clone()));
        let tags = BTreeMap::new();
        let made = server.create_key(&asker, "o-1", "new", &tags).await;
        made.expect_err("no key");
        server.keys(&asker, "o-1", MINUTE).await.expect("a list");
        assert_eq!(stage.count_requests(&Method::GET, KEYS), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_waiters_makes_the_list_doubtful_too() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    server.keys(&asker, "o-1", MINUTE).await.expect("a list");
    stage.latency(Duration::from_secs(1));
    let tags = BTreeMap::new();
    let made = server.create_key(&asker, "o-1", "new", &tags);
    let made = tokio::time::timeout(Duration::from_millis(500), made).await;
    assert!(made.is_err());
    server.keys(&asker, "o-1", MINUTE).await.expect("a list");
    assert_eq!(stage.count_requests(&Method::GET, KEYS), 2);
}

#[tokio::test(start_paused = true)]
async fn an_organization_that_is_not_found_by_its_id_is_looked_up_again() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    for _ in 0..3 {
        let found = server.organization(&asker, "default").await;
        assert_eq!(found.expect("found").id, "o-1");
    }
    assert_eq!(stage.count_requests(&Method::GET, "/default"), 1);
    stage.play(|request| (request.method() == Method::DELETE).then(|| Some((404, String::new()))));
    let gone = server.delete_key(&asker, "o-1", "old").await;
    assert_eq!(error_class(gone), Some(CallErrorClass::Missing));
    server.organization(&asker, "default").await.expect("found");
    assert_eq!(stage.count_requests(&Method::GET, "/default"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_is_known_by_name_and_id_once_it_is_made() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    let none = server.proxy(&asker, "us", MINUTE).await.expect("looked");
    assert_eq!(none.value, None);
    let looks = crate::client::ProxyDisplay::default();
    let made = server.create_proxy(&asker, &looks).await.expect("made");
    assert!(made.token.is_some());
    for name in ["eu", "p-1"] {
        let known = server.proxy(&asker, name, MINUTE).await.expect("known");
        assert_eq!(known.value, Some(made.proxy.clone()));
    }
    assert_eq!(
        stage.count_requests(&Method::GET, "/eu") + stage.count_requests(&Method::GET, "/p-1"),
        0
    );
    server.delete_proxy(&asker, "p-1").await.expect("gone");
    server.proxy(&asker, "eu", MINUTE).await.expect("looked");
    assert_eq!(stage.count_requests(&Method::GET, "/eu"), 1);
}
