//! Passing the limiter by: who may, who may not, and where nobody notices.

use aplomb_fake_services::coderd::{FakeCoderd, Version};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;

use super::{BUILDER, OWNER, coderd, header, request, send};

async fn bypass(coderd: &FakeCoderd, token: &str) -> Response<Bytes> {
    let mut request = request(token, "GET", "/api/v2/organizations/default", &Value::Null);
    let yes = http::HeaderValue::from_static("true");
    request.headers_mut().insert("X-Coder-Bypass-Ratelimit", yes);
    send(coderd, request).await.expect("an answer")
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_never_limited_and_finds_a_fresh_bucket_each_time() {
    let coderd = coderd(|config| config.limit = 2);
    for _ in 0..20 {
        let answer = bypass(&coderd, OWNER).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(header(&answer, "x-ratelimit-remaining").as_deref(), Some("1"));
    }
    assert_eq!(coderd.state().buckets, []);
    assert!(coderd.requests().iter().all(|entry| entry.bypass && !entry.counted));
}

#[tokio::test(start_paused = true)]
async fn others_are_refused_in_plain_text_and_it_costs_them_nothing() {
    let coderd = coderd(|config| config.limit = 2);
    for _ in 0..20 {
        let answer = bypass(&coderd, BUILDER).await;
        assert_eq!(answer.status(), 428);
        let kind = header(&answer, "content-type");
        assert_eq!(kind.as_deref(), Some("text/plain; charset=utf-8"));
        assert_eq!(header(&answer, "x-ratelimit-limit"), None);
    }
    assert_eq!(coderd.state().buckets, []);
}

#[tokio::test(start_paused = true)]
async fn some_documents_call_the_refusal_412() {
    let coderd = coderd(|config| config.bypass_refusal = StatusCode::PRECONDITION_FAILED);
    assert_eq!(bypass(&coderd, BUILDER).await.status(), 412);
}

#[tokio::test(start_paused = true)]
async fn nobody_notices_without_a_valid_token_or_on_an_old_server() {
    let new = coderd(|config| config.limit = 1);
    assert_eq!(bypass(&new, "wrong").await.status(), 401);
    assert_eq!(bypass(&new, "wrong").await.status(), 429);
    let old = coderd(|config| {
        config.limit = 2;
        config.version = Version::new(2, 31);
    });
    assert_eq!(bypass(&old, OWNER).await.status(), 200);
    assert_eq!(bypass(&old, BUILDER).await.status(), 200);
    assert_eq!(bypass(&old, OWNER).await.status(), 429);
}
