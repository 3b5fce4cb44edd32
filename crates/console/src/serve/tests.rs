//! The routes over fixed values: their responses, rejected methods, and how a live page begins and ends.

use aplomb::ObjectRef;
use aplomb::admin;
use aplomb::journal::JournalLine;
use axum::body::Body;
use axum::http::{Method, Request};
use futures::StreamExt;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::ServiceExt;

use super::*;
use crate::fixture;
use crate::status::ObjectMap;
use crate::trace::ObjectTrace;

struct Fixed(watch::Sender<u64>);

impl DataSources for Fixed {
    fn objects(&self) -> ObjectMap {
        fixture::objects()
    }

    fn engines(&self) -> Vec<(String, admin::DebugState)> {
        fixture::engines()
    }

    fn journal(&self, object: &ObjectRef) -> Vec<JournalLine> {
        fixture::journal(object)
    }

    fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

fn console(changes: &watch::Sender<u64>, ends: &CancellationToken) -> Router {
    let clock = Clock::new(fixture::fixture_time);
    router(ConsoleState::new(Fixed(changes.clone()), clock, ends.clone()))
}

async fn send_request(method: Method, path: &str) -> Response {
    let router = console(&watch::Sender::new(0), &CancellationToken::new());
    send_to(&router, method, path).await
}

async fn send_to(router: &Router, method: Method, path: &str) -> Response {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).expect("a request");
    router.clone().oneshot(request).await.expect("a response")
}

async fn text(response: Response) -> String {
    let body = response.into_body().collect().await.expect("a body");
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

#[tokio::test]
async fn every_endpoint_is_read_only() {
    for path in ["/", "/status.json", "/events", "/trace/HTTPProxy/default/shop"] {
        for method in [
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            let status = send_request(method.clone(), path).await.status();
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
        assert_eq!(
            send_request(Method::HEAD, path).await.status(),
            StatusCode::OK,
            "{path}"
        );
    }
}

#[tokio::test]
async fn every_response_has_the_content_security_policy() {
    for path in [
        "/",
        "/console.css",
        "/console.js",
        "/icon.svg",
        "/status.json",
        "/events",
        "/trace/no/such",
    ] {
        let headers = send_request(Method::GET, path).await.headers().clone();
        assert_eq!(headers[CONTENT_SECURITY_POLICY], CSP_VALUE, "{path}");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
    }
    assert!(!CSP_VALUE.contains("unsafe"));
}

#[tokio::test]
async fn the_page_and_the_json_agree() {
    let json = text(send_request(Method::GET, "/status.json").await).await;
    let status: Overview = serde_json::from_str(&json).expect("a status");
    assert_eq!(status, fixture::status());
    let page = text(send_request(Method::GET, "/").await).await;
    assert!(page.contains(&page::render_overview(&status).expect("a page")));
}

#[tokio::test]
async fn a_tunnel_has_a_page_and_json_of_its_own() {
    let page = text(send_request(Method::GET, "/trace/HTTPProxy/default/shop").await).await;
    assert!(page.contains("kubectl-edit") && page.contains("class=\"picture\""));
    assert!(page.contains("data-events=\"&#x2f;events?of=HTTPProxy&#x2f;default&#x2f;shop\""));
    let json = text(send_request(Method::GET, "/trace/httpproxies/default/shop.json").await).await;
    let trace: ObjectTrace = serde_json::from_str(&json).expect("a trace");
    assert_eq!(trace.tree.name, "shop");
    let page = text(send_request(Method::GET, "/trace/StableEgress/web").await).await;
    assert!(page.contains("gateway-b"));
}

#[tokio::test]
async fn a_missing_page_is_404_in_plain_text() {
    for path in [
        "/trace/HTTPProxy/default/none",
        "/trace/Secret/default/token",
        "/trace/x",
        "/nothing",
    ] {
        let response = send_request(Method::GET, path).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_page_is_sent_at_once_on_a_change_and_every_second() {
    let (changes, ends) = (watch::Sender::new(0), CancellationToken::new());
    let response = send_to(&console(&changes, &ends), Method::GET, "/events").await;
    let mut events = response.into_body().into_data_stream();
    let began = Instant::now();
    let first = events.next().await.expect("an event").expect("bytes");
    assert!(first.starts_with(b"data: <main id=\"main\">"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    changes.send_modify(|it| *it += 1);
    events.next().await.expect("an event").expect("bytes");
    let second = began.elapsed();
    assert!(second <= Duration::from_millis(101), "{second:?}");
    events.next().await.expect("an event").expect("bytes");
    let third = began.elapsed() - second;
    assert!(
        third >= Duration::from_millis(900) && third <= Duration::from_millis(1101),
        "{third:?}"
    );
    ends.cancel();
    assert!(events.next().await.is_none(), "the stream ends with its server");
}

#[tokio::test]
async fn live_pages_are_limited() {
    let (changes, ends) = (watch::Sender::new(0), CancellationToken::new());
    let router = console(&changes, &ends);
    let mut live = Vec::new();
    for _ in 0..MAX_READERS {
        live.push(send_to(&router, Method::GET, "/events").await);
    }
    let one_more = send_to(&router, Method::GET, "/events").await;
    assert_eq!(one_more.status(), StatusCode::SERVICE_UNAVAILABLE);
    live.pop();
    let again = send_to(&router, Method::GET, "/events").await;
    assert_eq!(again.status(), StatusCode::OK);
}
