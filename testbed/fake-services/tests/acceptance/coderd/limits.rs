//! The limiter in front of the calls: headers, and who shares a bucket.

use std::time::Duration;

use aplomb_fake_services::coderd::Version;
use serde_json::Value;

use super::{BUILDER, KEYS, OWNER, coderd, header, order, put, request, send, status};
use serde_json::json;

const ME: &str = "/api/v2/users/me";

#[tokio::test(start_paused = true)]
async fn every_answer_says_what_is_left_and_a_refusal_when_to_come_back() {
    let coderd = coderd(|config| {
        config.limit = 2;
        config.offset = Duration::from_millis(30_500);
    });
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = send(&coderd, request(OWNER, "GET", ME, &Value::Null)).await;
        let answer = answer.expect("an answer");
        let said = |name| header(&answer, name);
        assert_eq!(said("x-ratelimit-limit").as_deref(), Some("2"));
        // The window ends half a second later than it says.
        assert_eq!(said("x-ratelimit-reset").as_deref(), Some("1767225630"));
        assert_eq!(said("date").as_deref(), Some("Thu, 01 Jan 2026 00:00:00 GMT"));
        let remaining = said("x-ratelimit-remaining").expect("it says");
        seen.push((answer.status().as_u16(), remaining, said("retry-after")));
    }
    let expected = [(200, "1", None), (200, "0", None), (429, "0", Some("60"))];
    let seen: Vec<_> = seen
        .iter()
        .map(|(status, left, after)| (*status, left.as_str(), after.as_deref()))
        .collect();
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_the_limit_and_is_not_counted() {
    let coderd = coderd(|config| config.limit = 1);
    for _ in 0..50 {
        send(&coderd, request(OWNER, "GET", ME, &Value::Null))
            .await
            .expect("an answer");
    }
    let answer = send(&coderd, request(OWNER, "GET", ME, &Value::Null))
        .await
        .expect("an answer");
    let body: Value = serde_json::from_slice(answer.body()).expect("JSON");
    let said = "You've been rate limited for sending more than 1 requests in 1m0s.";
    assert_eq!(body["message"], said);
    assert_eq!(coderd.state().buckets[0].current, 1);
    let counted = coderd.requests().iter().filter(|entry| entry.counted).count();
    assert_eq!(counted, 1);
}

#[tokio::test(start_paused = true)]
async fn list_and_create_share_a_bucket_and_each_delete_has_its_own() {
    let coderd = coderd(|config| config.limit = 2);
    assert_eq!(status(&coderd, OWNER, "GET", KEYS).await, 200);
    assert_eq!(status(&coderd, OWNER, "POST", &format!("{KEYS}?x=1")).await, 201);
    assert_eq!(status(&coderd, OWNER, "GET", KEYS).await, 429);
    assert_eq!(status(&coderd, OWNER, "DELETE", &format!("{KEYS}/some")).await, 204);
    assert_eq!(status(&coderd, BUILDER, "GET", KEYS).await, 200);
}

#[tokio::test(start_paused = true)]
async fn all_share_an_address_before_2_32_and_doubled_slashes_dodge_before_2_36() {
    for (version, second, dodged) in [
        (Version::new(2, 31), 429, 200),
        (Version::new(2, 32), 200, 200),
        (Version::new(2, 36), 200, 429),
    ] {
        let coderd = coderd(|config| {
            config.limit = 1;
            config.version = version;
        });
        assert_eq!(status(&coderd, OWNER, "GET", ME).await, 200);
        assert_eq!(status(&coderd, BUILDER, "GET", ME).await, second, "{version}");
        let slashes = "/api/v2//users/me";
        assert_eq!(status(&coderd, OWNER, "GET", slashes).await, dodged, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_are_counted_by_address() {
    let coderd = coderd(|config| config.limit = 1);
    assert_eq!(status(&coderd, "wrong", "GET", ME).await, 401);
    assert_eq!(status(&coderd, "as-wrong", "GET", ME).await, 429);
    assert_eq!(status(&coderd, OWNER, "GET", ME).await, 200);
    assert_eq!(coderd.requests()[0].identity, "127.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn the_limit_and_what_was_counted_can_be_set() {
    let coderd = coderd(|config| config.limit = -1);
    for _ in 0..600 {
        assert_eq!(status(&coderd, OWNER, "GET", ME).await, 200);
    }
    coderd.set_limit(10);
    let identity = &coderd.requests()[0].identity;
    put(
        &coderd,
        json!({"buckets": [{"identity": identity, "path": ME, "current": 10}]}),
    );
    assert_eq!(status(&coderd, OWNER, "GET", ME).await, 429);
    tokio::time::advance(Duration::from_secs(120)).await;
    assert_eq!(status(&coderd, OWNER, "GET", ME).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_429_to_order_looks_like_a_real_one_and_a_bare_one_like_a_gateways() {
    let coderd = coderd(|_| {});
    order(&coderd, json!({"status": 429, "times": 1}));
    order(&coderd, json!({"status": 429, "bare": true}));
    let answer = send(&coderd, request(OWNER, "GET", ME, &Value::Null))
        .await
        .expect("an answer");
    let said = |name| header(&answer, name);
    assert_eq!(
        (answer.status().as_u16(), said("retry-after").as_deref()),
        (429, Some("60"))
    );
    assert_eq!(said("x-ratelimit-remaining").as_deref(), Some("0"));
    let answer = send(&coderd, request(OWNER, "GET", ME, &Value::Null))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 429);
    for name in ["x-ratelimit-limit", "x-ratelimit-reset", "retry-after", "date"] {
        assert_eq!(header(&answer, name), None);
    }
    assert_eq!(coderd.state().buckets, []);
}
