//! Tokens and the rate limit, as clients see them.

use std::time::Duration;

use aplomb_fake_services::hcloud::{Scope, Token};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::time::advance;
use tower::Service as _;

use super::{ASSIGN, TOKEN, call, hetzner, number, order, put, send, send_as};

fn level(answer: &Response<Bytes>) -> (i64, i64, i64) {
    let of = |header| number(answer, header);
    (of("RateLimit-Limit"), of("RateLimit-Remaining"), of("RateLimit-Reset"))
}

#[tokio::test(start_paused = true)]
async fn every_answer_counts_and_says_what_is_left() {
    let hetzner = hetzner(|_| {});
    order(&hetzner, json!({"path": "/servers/1", "status": 502}));
    let cases = [
        ("GET", "/v1/floating_ips", Value::Null, 200),
        ("POST", ASSIGN, json!({"server": 2}), 201),
        ("POST", ASSIGN, json!({"server": 2}), 423),
        ("GET", "/v1/floating_ips/99", Value::Null, 404),
        ("GET", "/v1/servers/1", Value::Null, 502),
        ("PATCH", "/v1/servers", Value::Null, 405),
    ];
    for (spent, (method, path, body, status)) in (1..).zip(cases) {
        let answer = send(&hetzner, method, path, body).await.expect("an answer");
        assert_eq!(answer.status(), status, "{method} {path}");
        // The clock stands still at 2026-01-01T00:00:00Z.
        assert_eq!(level(&answer), (3600, 3600 - spent, 1_767_225_600 + spent));
        assert_eq!(answer.headers()["date"], "Thu, 01 Jan 2026 00:00:00 GMT");
        assert_eq!(answer.headers()["x-correlation-id"].len(), 16);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_bucket_refuses_and_names_half_the_token() {
    let hetzner = hetzner(|config| config.limit = 2);
    put(&hetzner, json!({"buckets": [{"name": "default", "remaining": 0}]}));
    let answer = send(&hetzner, "GET", "/v1/servers", Value::Null).await.expect("one");
    assert_eq!(answer.status(), 429);
    assert_eq!(level(&answer), (2, 0, 1_767_225_600 + 3600));
    assert!(answer.headers().get("Retry-After").is_none());
    let body: Value = serde_json::from_slice(answer.body()).expect("JSON");
    assert_eq!(body["error"]["code"], "rate_limit_exceeded");
    let message = body["error"]["message"].as_str().expect("text");
    assert!(message.contains("first-half-of-the-token..."), "{message}");
    assert!(!message.contains("SECOND"), "{message}");
    let log = serde_json::to_string(&hetzner.requests()).expect("JSON");
    assert!(!log.contains("first-half"), "{log}");
    assert!(!format!("{hetzner:?}").contains("first-half"));
}

#[tokio::test(start_paused = true)]
async fn a_token_comes_back_each_second_at_the_usual_limit() {
    let hetzner = hetzner(|_| {});
    put(&hetzner, json!({"buckets": [{"name": "default", "remaining": 0}]}));
    assert_eq!(call(&hetzner, "GET", "/v1/servers", Value::Null).await.0, 429);
    advance(Duration::from_secs(1)).await;
    assert_eq!(call(&hetzner, "GET", "/v1/servers", Value::Null).await.0, 200);
    assert_eq!(call(&hetzner, "GET", "/v1/servers", Value::Null).await.0, 429);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_token_is_refused_and_counted() {
    let hetzner = hetzner(|_| {});
    let answer = send_as(&hetzner, "wrong", "GET", "/v1/servers", &Value::Null).await;
    let answer = answer.expect("an answer");
    assert_eq!((answer.status().as_u16(), level(&answer).1), (401, 3599));
    let bare = Request::get("/v1/servers").body(Bytes::new()).expect("a request");
    let answer = hetzner.service().call(bare).await.expect("an answer");
    assert_eq!((answer.status().as_u16(), level(&answer).1), (401, 3598));
    let body: Value = serde_json::from_slice(answer.body()).expect("JSON");
    assert_eq!(body["error"]["code"], "unauthorized");
}

#[tokio::test(start_paused = true)]
async fn who_shares_a_bucket_is_a_switch() {
    for (per, left) in [(Scope::Project, [9, 8, 9]), (Scope::Token, [9, 9, 9])] {
        let hetzner = hetzner(|config| {
            (config.per, config.limit) = (per, 10);
            config.tokens = vec![
                Token::new("a").of("one"),
                Token::new("b").of("one"),
                Token::new("c").of("two"),
            ];
        });
        for (token, left) in ["a", "b", "c"].into_iter().zip(left) {
            let answer = send_as(&hetzner, token, "GET", "/v1/servers", &Value::Null).await;
            assert_eq!(level(&answer.expect("an answer")).1, left, "{per:?} {token}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_sees_its_project_and_what_is_in_none() {
    let hetzner = hetzner(|config| {
        config.tokens = vec![Token::new("a").of("one"), Token::new("b").of("two")];
    });
    put(
        &hetzner,
        json!({"floating_ips": [
            {"id": 10, "name": "shared", "ip": "192.0.2.10"},
            {"id": 11, "name": "mine", "ip": "192.0.2.11", "project": "one"},
        ]}),
    );
    for (token, status, seen) in [("a", 200, 2), ("b", 404, 1)] {
        let path = "/v1/floating_ips/11";
        let answer = send_as(&hetzner, token, "GET", path, &Value::Null).await;
        assert_eq!(answer.expect("an answer").status(), status);
        let list = send_as(&hetzner, token, "GET", "/v1/floating_ips", &Value::Null).await;
        let list: Value = serde_json::from_slice(list.expect("one").body()).expect("JSON");
        assert_eq!(list["floating_ips"].as_array().map(Vec::len), Some(seen));
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_only_token_may_read() {
    let hetzner = hetzner(|config| {
        config.tokens = Token::file(&format!("# ours\n{TOKEN} default readonly\n")).expect("one");
    });
    assert_eq!(call(&hetzner, "GET", "/v1/servers", Value::Null).await.0, 200);
    let (status, body) = call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (401, Some("token_readonly")));
}

#[test]
fn a_bad_token_file_is_named_by_line_and_never_by_text() {
    assert!(Token::file("\n# nothing\n").is_err());
    let error = Token::file("good\nsecret project writable").expect_err("it is wrong");
    assert!(error.starts_with("line 2") && !error.contains("secret"), "{error}");
}
