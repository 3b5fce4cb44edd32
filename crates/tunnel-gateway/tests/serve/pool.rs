//! Connections to origins: reused, and closed without losing or repeating a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;

use crate::lab::{Lab, OriginBehavior, full, text, with_timeout};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn dial_count(lab: &Lab) -> usize {
    lab.dialer.dials.load(Ordering::SeqCst)
}

#[tokio::test]
async fn requests_one_after_another_share_a_connection() {
    let lab = Lab::new();
    for _ in 0..10 {
        assert_eq!(lab.get("http://a.example.com/").await.0, 200);
    }
    assert_eq!(dial_count(&lab), 1);
    assert_eq!(lab.get("http://b.example.com/").await.0, 200);
    assert_eq!(dial_count(&lab), 2, "another tunnel has its own");
}

#[tokio::test(start_paused = true)]
async fn an_unused_connection_is_closed() {
    let lab = Lab::new();
    let closed = Arc::new(Notify::new());
    let tell = closed.clone();
    let serve = move |mut stream: DuplexStream| {
        let tell = tell.clone();
        let work = async move {
            let mut head = [0; 4096];
            while stream.read(&mut head).await.expect("read") > 0 {
                stream.write_all(OK).await.expect("written");
            }
            tell.notify_one();
        };
        work.boxed()
    };
    lab.dialer.set_origin("a:80", OriginBehavior::Pipe(Arc::new(serve)));
    let began = tokio::time::Instant::now();
    assert_eq!(lab.get("http://a.example.com/").await.0, 200);
    closed.notified().await;
    assert_eq!(began.elapsed().as_secs(), 60);
}

/// An origin that responds to the first request of its first connection, and closes it at the second. Returns
/// the number of requests it has received.
fn closing_origin(lab: &Lab) -> Arc<AtomicUsize> {
    let seen = Arc::new(AtomicUsize::new(0));
    let (count, connections) = (seen.clone(), Arc::new(AtomicUsize::new(0)));
    let serve = move |mut stream: DuplexStream| {
        let count = count.clone();
        let first = connections.fetch_add(1, Ordering::SeqCst) == 0;
        let work = async move {
            let mut head = [0; 4096];
            let mut answered = 0;
            while stream.read(&mut head).await.unwrap_or(0) > 0 {
                count.fetch_add(1, Ordering::SeqCst);
                if first && answered == 1 {
                    return;
                }
                stream.write_all(OK).await.expect("written");
                answered += 1;
            }
        };
        work.boxed()
    };
    lab.dialer.set_origin("a:80", OriginBehavior::Pipe(Arc::new(serve)));
    seen
}

#[tokio::test]
async fn a_request_that_may_be_repeated_is_sent_again_when_a_kept_connection_dies() {
    let lab = Lab::new();
    let seen = closing_origin(&lab);
    assert_eq!(lab.get("http://a.example.com/").await.0, 200);
    assert_eq!(lab.get("http://a.example.com/").await.0, 200);
    assert_eq!((dial_count(&lab), seen.load(Ordering::SeqCst)), (2, 3));
}

#[tokio::test]
async fn a_request_that_may_not_be_repeated_is_sent_once() {
    for body in ["", "x"] {
        let lab = Lab::new();
        let seen = closing_origin(&lab);
        assert_eq!(lab.get("http://a.example.com/").await.0, 200);
        let request = Request::post("http://a.example.com/").body(full(body));
        let response = lab.send(request.expect("a request")).await;
        assert_eq!(response.status(), 502);
        assert_eq!((dial_count(&lab), seen.load(Ordering::SeqCst)), (1, 2));
    }
}

#[tokio::test]
async fn a_pooled_connection_that_the_origin_closed_fails_no_request() {
    let lab = Lab::new();
    let serve = |mut stream: DuplexStream| {
        let work = async move {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await.expect("a request");
            stream.write_all(OK).await.expect("written");
        };
        work.boxed()
    };
    lab.dialer.set_origin("a:80", OriginBehavior::Pipe(Arc::new(serve)));
    for round in 1..=5 {
        let request = Request::post("http://a.example.com/").body(full("x"));
        let response = lab.send(request.expect("a request")).await;
        assert_eq!(response.status(), 200);
        text(response.into_body()).await;
        assert_eq!(dial_count(&lab), round);
        // The origin closes after its response; wait until the gateway sees that.
        with_timeout("a moment", tokio::time::sleep(Duration::from_millis(5))).await;
    }
}

#[tokio::test]
async fn a_response_before_the_end_of_the_request_uses_the_connection_up() {
    let lab = Lab::new();
    lab.origin(|_| async { http::Response::new(full("enough")) });
    for round in 1..=2 {
        let pending = http_body_util::StreamBody::new(futures::stream::pending());
        let body = http_body_util::BodyExt::boxed_unsync(pending);
        let request = Request::post("http://a.example.com/").body(body);
        let response = with_timeout("a response", lab.send(request.expect("a request"))).await;
        assert_eq!(text(response.into_body()).await, "enough");
        assert_eq!(dial_count(&lab), round);
    }
}
