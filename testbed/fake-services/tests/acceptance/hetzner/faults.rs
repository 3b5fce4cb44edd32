//! Faults to order, one by one.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, advance, timeout};

use super::{ASSIGN, call, get, hetzner, number, order, refusal, send};

const AWHILE: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_lost_before_or_after_the_effect() {
    for (when, holder, left) in [("before", Some(1), 3600), ("after", Some(2), 3599)] {
        let hetzner = hetzner(|_| {});
        order(&hetzner, json!({"method": "POST", "reset": when, "times": 1}));
        let lost = send(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
        lost.expect_err("there is no answer");
        assert_eq!(hetzner.remaining("default"), left, "{when}");
        let entry = hetzner.requests().pop().expect("it is in the log");
        assert_eq!((entry.status, entry.fault), (None, Some(1)));
        advance(AWHILE).await;
        assert_eq!(hetzner.holder(10), holder, "{when}");
        assert_eq!(get(&hetzner, "/v1/servers").await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_is_never_answered() {
    let hetzner = hetzner(|_| {});
    order(&hetzner, json!({"path": "/servers", "hang": "after", "times": 1}));
    let hung = timeout(Duration::from_secs(3600), get(&hetzner, "/v1/servers")).await;
    hung.expect_err("an hour is not enough");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_late_and_its_effect_is_not() {
    let hetzner = hetzner(|_| {});
    order(&hetzner, json!({"delay": "30s", "action": {"duration": "1s"}}));
    let begun = Instant::now();
    let (status, _) = call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    assert_eq!((status, begun.elapsed()), (201, Duration::from_secs(30)));
    let finished = hetzner.state().actions[0].finished.expect("it is over");
    assert_eq!(finished.to_string(), "2026-01-01T00:00:01Z");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_answers_without_json() {
    for status in [502, 504] {
        let hetzner = hetzner(|_| {});
        order(&hetzner, json!({"status": status, "times": 1}));
        let answer = send(&hetzner, "GET", "/v1/servers", Value::Null).await.expect("one");
        assert_eq!(answer.status(), status);
        assert!(serde_json::from_slice::<Value>(answer.body()).is_err());
        assert_eq!(number(&answer, "RateLimit-Remaining"), 3599);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bare_answer_says_nothing_of_the_rate_limit() {
    let hetzner = hetzner(|_| {});
    order(&hetzner, json!({"status": 504, "bare": true}));
    let answer = send(&hetzner, "GET", "/v1/servers", Value::Null).await;
    let headers = answer.expect("an answer").headers().clone();
    assert_eq!(
        headers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(),
        ["content-type"]
    );
    assert_eq!(hetzner.remaining("default"), 3599);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_made_of_a_status_a_code_or_a_body() {
    let hetzner = hetzner(|_| {});
    let cases = [
        (json!({"status": 500}), 500, "server_error"),
        (json!({"status": 503}), 503, "unavailable"),
        (json!({"status": 403}), 403, "maintenance"),
        (json!({"code": "locked"}), 423, "locked"),
        (json!({"code": "protected"}), 423, "protected"),
        (json!({"code": "conflict"}), 409, "conflict"),
        (json!({"code": "rate_limit_exceeded"}), 429, "rate_limit_exceeded"),
        (json!({"status": 418, "body": {"error": {"code": "own"}}}), 418, "own"),
    ];
    for (mut fault, status, code) in cases {
        fault["times"] = json!(1);
        order(&hetzner, fault);
        let answer = refusal(&hetzner, "GET", "/v1/servers", Value::Null).await;
        assert_eq!(answer, (status, code.to_owned()));
    }
    order(&hetzner, json!({"headers": {"Retry-After": "7"}}));
    let answer = send(&hetzner, "GET", "/v1/servers", Value::Null).await.expect("one");
    assert_eq!((answer.status().as_u16(), number(&answer, "Retry-After")), (200, 7));
}

#[tokio::test(start_paused = true)]
async fn a_refused_answer_may_hide_an_effect() {
    for (commit, holder) in [(false, Some(1)), (true, Some(2))] {
        let hetzner = hetzner(|_| {});
        order(&hetzner, json!({"method": "POST", "status": 504, "commit": commit}));
        assert_eq!(call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await.0, 504);
        advance(AWHILE).await;
        assert_eq!(hetzner.holder(10), holder);
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_fails_sticks_or_is_over_at_once() {
    let cases = [
        (json!({"fail": "action_failed"}), "running", "error", Some(1)),
        (json!({"stuck": true}), "running", "running", Some(1)),
        (json!({"duration": "0s"}), "success", "success", Some(2)),
        (json!({"fail": "x", "takes_effect": true}), "running", "error", Some(2)),
    ];
    for (action, first, last, holder) in cases {
        let hetzner = hetzner(|_| {});
        order(
            &hetzner,
            json!({"method": "POST", "path": "/floating_ips", "action": action}),
        );
        let (_, body) = call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
        assert_eq!(body["action"]["status"], first, "{action}");
        let id = body["action"]["id"].as_u64().expect("an id");
        advance(AWHILE).await;
        let (_, body) = get(&hetzner, &format!("/v1/actions/{id}")).await;
        assert_eq!(body["action"]["status"], last, "{action}");
        assert_eq!(body["action"]["error"]["code"], action["fail"]);
        assert_eq!(hetzner.holder(10), holder, "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_action_locks_unless_told_otherwise() {
    for (locks, status) in [(true, 423), (false, 201)] {
        let hetzner = hetzner(|_| {});
        order(&hetzner, json!({"times": 1, "action": {"stuck": true, "locks": locks}}));
        call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
        advance(Duration::from_secs(3600)).await;
        assert_eq!(call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await.0, status);
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_for_the_next_action_is_not_spent_on_a_read() {
    let hetzner = hetzner(|_| {});
    order(&hetzner, json!({"times": 1, "action": {"duration": "0s"}}));
    assert_eq!(get(&hetzner, "/v1/servers").await.0, 200);
    let (_, body) = call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    assert_eq!(body["action"]["status"], "success");
}
