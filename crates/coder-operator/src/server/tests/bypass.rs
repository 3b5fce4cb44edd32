//! Calls with the bypass header: with an owner's token, with another's, and on a server that
//! ignores it.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::*;
use crate::client::CallErrorClass;

fn has_bypass_header(request: &Request<Bytes>) -> bool {
    request.headers().contains_key("x-coder-bypass-ratelimit")
}

/// Makes a key for each of `names`, all at once; how many were made.
async fn create(stage: &Stage, names: std::ops::Range<u32>) -> usize {
    let server = stage.server();
    let tags = BTreeMap::new();
    let make = async |n: u32| {
        let who = object(&format!("o{n}"));
        loop {
            let mut asker = stage.caller(&who);
            asker.bypass = true;
            let name = format!("k{n}");
            match server.create_key(&asker, "o-1", &name, &tags).await {
                Err(Pushback::Later { until, .. }) => tokio::time::sleep_until(until).await,
                other => return other,
            }
        }
    };
    let made = join_all(names.map(make)).await;
    made.iter().filter(|made| made.is_ok()).count()
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_never_counted() {
    let stage = Stage::new();
    assert_eq!(create(&stage, 0..1).await, 1);
    assert_eq!(create(&stage, 1..200).await, 199);
    assert_eq!(stage.count_requests(&Method::POST, "/provisionerkeys"), 200);
    assert_eq!(stage.bypassed(), 200);
    assert_eq!(stage.server().bypass_state(), BypassState::Works);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_eight_uncounted_calls_are_under_way() {
    let stage = Stage::new();
    assert_eq!(create(&stage, 0..1).await, 1);
    stage.latency(Duration::from_secs(1));
    let begin = Instant::now();
    assert_eq!(create(&stage, 1..33).await, 32);
    assert_eq!(begin.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn another_than_an_owner_costs_one_more_request_an_hour() {
    for status in [428, 412] {
        let stage = Stage::new();
        stage.play(move |request| {
            has_bypass_header(request).then(|| Some((status, "Precondition Required\n".to_owned())))
        });
        assert_eq!(create(&stage, 0..20).await, 20);
        assert_eq!(stage.count_requests(&Method::POST, "/provisionerkeys"), 21);
        assert_eq!(stage.server().bypass_state(), BypassState::Refused);
        assert_eq!(create(&stage, 20..40).await, 20);
        assert_eq!(stage.bypassed(), 1);
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(create(&stage, 40..60).await, 20);
        assert_eq!(stage.bypassed(), 2);
        let refused = stage.samples("aplomb_coder_bypass_refused_total");
        assert!(refused[0].ends_with(" 2"), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_server_is_not_called_and_that_is_reported() {
    let stage = Stage::new();
    stage.play(|request| {
        let version = request.uri().path().ends_with("buildinfo");
        version.then(|| Some((200, r#"{"version": "v2.30.0"}"#.to_owned())))
    });
    assert_eq!(create(&stage, 0..10).await, 10);
    assert_eq!(stage.bypassed(), 0);
    assert_eq!(stage.server().bypass_state(), BypassState::Ineffective);
    let said = stage.samples("aplomb_coder_bypass_ineffective_total");
    assert!(said[0].ends_with(" 1"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_429_despite_the_header_is_reported_and_backs_off() {
    let stage = Stage::new();
    stage.play(|request| has_bypass_header(request).then(|| Some((429, String::new()))));
    let (server, red) = (stage.server(), object("red"));
    let mut asker = stage.caller(&red);
    asker.bypass = true;
    let tags = BTreeMap::new();
    let made = server.create_key(&asker, "o-1", "new", &tags).await;
    assert_eq!(error_class(made), Some(CallErrorClass::Limited));
    assert_eq!(server.bypass_state(), BypassState::Ineffective);
    let made = server.create_key(&asker, "o-1", "new", &tags).await;
    assert!(is_later(&made));
    sleep(Duration::from_secs(3)).await;
    let mut asker = stage.caller(&red);
    asker.bypass = true;
    let made = server.create_key(&asker, "o-1", "new", &tags).await;
    made.expect("counted, and made");
    assert_eq!(stage.bypassed(), 1);
}

#[tokio::test(start_paused = true)]
async fn reads_of_what_cannot_be_bypassed_carry_no_header() {
    let stage = Stage::new();
    let (server, red) = (stage.server(), object("red"));
    let mut asker = stage.caller(&red);
    asker.bypass = true;
    server.organization(&asker, "default").await.expect("found");
    server.daemons(&asker, "o-1", MINUTE).await.expect("a list");
    server.proxy(&asker, "eu", MINUTE).await.expect("a proxy");
    // A call without a token cannot be an owner's.
    server.entitlements(&asker, MINUTE).await.expect("read");
    assert_eq!(stage.bypassed(), 0);
    server.keys(&asker, "o-1", MINUTE).await.expect("a list");
    assert_eq!(stage.bypassed(), 1);
}
