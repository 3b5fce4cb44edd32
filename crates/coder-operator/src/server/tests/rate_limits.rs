//! The gate, the lease, the time there is, and the server's clock.

use aplomb_api::coder::RateLimited;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::client::CallErrorClass;

fn throttle_all(_: &Request<Bytes>) -> Option<Said> {
    Some(Some((429, r#"{"message": "too many"}"#.to_owned())))
}

#[tokio::test(start_paused = true)]
async fn thirty_seconds_of_429_are_five_requests_however_often_it_is_woken() {
    let stage = Stage::new();
    stage.play(throttle_all);
    let (server, red) = (stage.server(), object("red"));
    while stage.start.elapsed() < Duration::from_secs(30) {
        let asker = stage.caller(&red);
        let answer = server.organization(&asker, "default").await;
        assert!(is_later(&answer) || error_class(answer) == Some(CallErrorClass::Limited));
        let answer = server.entitlements(&asker, MINUTE).await;
        assert!(is_later(&answer), "no other call either");
        sleep(Duration::from_millis(10)).await;
    }
    assert!((1..=5).contains(&stage.calls()), "{}", stage.calls());
    let limited = stage.samples("aplomb_coder_rate_limited_total");
    assert!(limited.iter().any(|line| line.contains("buildinfo")));
}

#[tokio::test(start_paused = true)]
async fn only_waiters_of_a_throttled_read_back_off() {
    let stage = Stage::new();
    let (server, red, blue) = (stage.server(), object("red"), object("blue"));
    let green = object("green");
    server
        .organization(&stage.caller(&green), "default")
        .await
        .expect("found");
    stage.play(|request| request.uri().path().ends_with("keys").then(|| throttle_all(request))?);
    let (asker, other) = (stage.caller(&red), stage.caller(&blue));
    let both = tokio::join!(server.keys(&asker, "o-1", MINUTE), server.keys(&other, "o-1", MINUTE));
    assert_eq!(error_class(both.0), Some(CallErrorClass::Limited));
    assert_eq!(error_class(both.1), Some(CallErrorClass::Limited));
    for who in [&red, &blue] {
        let answer = server.entitlements(&stage.caller(who), MINUTE).await;
        assert!(is_later(&answer), "{who}");
    }
    let answer = server.entitlements(&stage.caller(&green), MINUTE).await;
    answer.expect("its gate is open");
}

#[tokio::test(start_paused = true)]
async fn a_new_process_honors_the_backoff_in_status() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let at = |second: i64| Time(Timestamp::from_second(START + second).expect("a time"));
    let limited = RateLimited {
        since: at(-10),
        endpoint: "create key".to_owned(),
        not_before: at(20),
    };
    let mut asker = stage.caller(&red);
    asker.limited = Some(&limited);
    let answer = server.organization(&asker, "default").await;
    let Err(Pushback::Later { until, limited }) = answer else {
        panic!("{answer:?}");
    };
    assert!(limited);
    assert_eq!(until - stage.start, Duration::from_secs(20));
    assert_eq!(stage.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_sent() {
    let mut stage = Stage::new();
    stage.fence = Fence::closed();
    let (server, red) = (stage.server(), object("red"));
    let answer = server.organization(&stage.caller(&red), "default").await;
    assert_eq!(error_class(answer), Some(CallErrorClass::NoAnswer));
    assert_eq!(stage.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_too_long_is_none() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    server.organization(&asker, "default").await.expect("found");
    stage.latency(Duration::from_secs(11));
    let sent = Instant::now();
    let answer = server.delete_key(&asker, "o-1", "old").await;
    assert_eq!(error_class(answer), Some(CallErrorClass::NoAnswer));
    assert_eq!(sent.elapsed(), Duration::from_secs(10));
    let mut asker = stage.caller(&red);
    asker.deadline = Instant::now() + Duration::from_secs(3);
    let sent = Instant::now();
    let answer = server.delete_key(&asker, "o-1", "older").await;
    assert_eq!(error_class(answer), Some(CallErrorClass::NoAnswer));
    assert_eq!(sent.elapsed(), Duration::from_millis(2500), "and it is noted");
}

#[tokio::test(start_paused = true)]
async fn the_servers_clock_is_learned_from_its_answers() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let asker = stage.caller(&red);
    let read = server.entitlements(&asker, MINUTE).await.expect("read");
    assert_eq!(server.now(), timestamp(stage.start), "they agree");
    assert!(read.server_time <= server.now());
}

#[tokio::test(start_paused = true)]
async fn deferred_callers_are_notified_when_the_read_completes() {
    let stage = Stage::new();
    stage.latency(Duration::from_secs(1));
    let (server, red, blue) = (stage.server(), object("red"), object("blue"));
    let (asker, other) = (stage.caller(&red), stage.caller(&blue));
    // The first of a path goes alone; another call of the same path has to wait for it.
    server.organization(&asker, "default").await.expect("found");
    let tags = std::collections::BTreeMap::new();
    let write = server.create_key(&asker, "o-1", "new", &tags);
    let look = async {
        sleep(Duration::from_millis(100)).await;
        server.keys(&other, "o-1", MINUTE).await
    };
    let (write, look) = tokio::join!(write, look);
    write.expect("made");
    assert!(is_later(&look), "{look:?}");
    let told = stage.notified.lock().expect("no panic").clone();
    assert_eq!(told, [blue]);
}
