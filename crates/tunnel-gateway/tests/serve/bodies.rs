//! Bodies, trailers and other streams.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::lab::{Body, Client, Lab, full, text, with_timeout};

/// A body fed by a channel.
fn channel_body() -> (mpsc::Sender<Bytes>, Body) {
    let (send, receive) = mpsc::channel(1);
    let frames = stream::unfold(receive, |mut receive: mpsc::Receiver<Bytes>| async move {
        let piece = receive.recv().await?;
        Some((Ok(Frame::data(piece)), receive))
    });
    (send, StreamBody::new(frames).boxed_unsync())
}

#[tokio::test]
async fn the_first_byte_arrives_before_the_last_is_sent() {
    for two in [false, true] {
        let lab = Lab::new();
        let (send, body) = channel_body();
        let body = Mutex::new(Some(body));
        lab.origin(move |_| {
            let body = body.lock().expect("whole").take().expect("one request");
            async { Response::new(body) }
        });
        let address = lab.listen(false).await;
        let (mut client, _open) = Client::connect(&lab.tasks, address, two).await;
        let request = Request::get("http://a.example.com/").body(full(""));
        let response = client.send(request.expect("a request")).await;
        let mut body = response.expect("a response").into_body();
        for piece in ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
            send.send(Bytes::from(piece)).await.expect("taken");
            let frame = with_timeout("an event", body.frame()).await;
            let frame = frame.expect("more").expect("whole");
            assert_eq!(frame.into_data().expect("data"), piece);
        }
        drop(send);
        assert_eq!(text(body).await, "", "the body ends without more data");
    }
}

#[tokio::test]
async fn the_origin_receives_the_first_byte_before_the_client_sends_the_last() {
    for two in [false, true] {
        let lab = Lab::new();
        let (heard, mut hears) = mpsc::unbounded_channel();
        lab.origin(move |request| {
            let heard = heard.clone();
            async move {
                let mut body = request.into_body();
                while let Some(Ok(frame)) = body.frame().await {
                    heard.send(frame.into_data().expect("data")).expect("sent");
                }
                Response::new(full("done"))
            }
        });
        let address = lab.listen(false).await;
        let (mut client, _open) = Client::connect(&lab.tasks, address, two).await;
        let (send, body) = channel_body();
        let request = Request::post("http://a.example.com/").body(body);
        let sending = client.send(request.expect("a request"));
        let speaks = async {
            for piece in ["one", "two"] {
                send.send(Bytes::from(piece)).await.expect("taken");
                let piece_heard = with_timeout("a piece", hears.recv()).await;
                assert_eq!(piece_heard.expect("more"), piece);
            }
            drop(send);
        };
        let (response, ()) = tokio::join!(sending, speaks);
        assert_eq!(text(response.expect("a response").into_body()).await, "done");
    }
}

const GIB: u64 = 1 << 30;

/// A body of 1 GiB; each piece is counted when it is created.
fn gib_body(made: Arc<AtomicU64>) -> Body {
    let piece = Bytes::from(vec![7; 64 * 1024]);
    let pieces = GIB / 65_536;
    let frames = stream::iter(0..pieces).map(move |_| {
        made.fetch_add(65_536, Ordering::Relaxed);
        Ok(Frame::data(piece.clone()))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Reads all of a body; returns its length and the maximum that was created but not yet read.
async fn read_counting<B>(mut body: B, made: &AtomicU64) -> (u64, u64)
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Debug,
{
    let (mut read, mut ahead) = (0, 0);
    while let Some(frame) = body.frame().await {
        let piece = frame.expect("whole").into_data().expect("data");
        ahead = ahead.max(made.load(Ordering::Relaxed) - read);
        read += u64::try_from(piece.len()).expect("small");
    }
    (read, ahead)
}

#[tokio::test]
async fn a_gib_comes_down_and_is_never_in_memory() {
    let lab = Lab::new();
    let made = Arc::new(AtomicU64::new(0));
    let counted = made.clone();
    lab.origin(move |_| {
        let body = gib_body(counted.clone());
        async { Response::new(body) }
    });
    let request = Request::get("http://a.example.com/").body(full(""));
    let response = lab.send(request.expect("a request")).await;
    let (read, ahead) = read_counting(response.into_body(), &made).await;
    assert_eq!(read, GIB);
    assert!(ahead < 4 << 20, "{ahead} bytes were buffered");
}

#[tokio::test]
async fn a_gib_goes_up_and_is_never_in_memory() {
    let lab = Lab::new();
    let made = Arc::new(AtomicU64::new(0));
    let counted = made.clone();
    lab.origin(move |request| {
        let counted = counted.clone();
        async move {
            let (read, ahead) = read_counting(request.into_body(), &counted).await;
            Response::new(full(format!("{read} {ahead}")))
        }
    });
    let request = Request::post("http://a.example.com/").body(gib_body(made));
    let response = lab.send(request.expect("a request")).await;
    let said = text(response.into_body()).await;
    let (read, ahead) = said.split_once(' ').expect("two numbers");
    assert_eq!(read.parse::<u64>().expect("a number"), GIB);
    let ahead: u64 = ahead.parse().expect("a number");
    assert!(ahead < 4 << 20, "{ahead} bytes were buffered");
}

fn trailer_body(value: &'static str) -> Body {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static(value));
    let frames = [Ok(Frame::data(Bytes::from("body"))), Ok(Frame::trailers(trailers))];
    StreamBody::new(stream::iter(frames)).boxed_unsync()
}

#[tokio::test]
async fn trailers_go_both_ways() {
    for two in [false, true] {
        let lab = Lab::new();
        lab.origin(|request| async move {
            let te = request.headers().get("te").cloned();
            let whole = request.into_body().collect().await.expect("a body");
            let sum = whole.trailers().and_then(|it| it.get("x-sum")).cloned();
            let mut response = Response::new(trailer_body("down"));
            let headers = response.headers_mut();
            headers.insert("trailer", HeaderValue::from_static("x-sum"));
            headers.insert("x-te", te.expect("TE is forwarded"));
            headers.insert("x-got", sum.expect("a trailer arrived"));
            response
        });
        let address = lab.listen(false).await;
        let (mut client, _open) = Client::connect(&lab.tasks, address, two).await;
        let request = Request::post("http://a.example.com/")
            .header("te", "trailers")
            .header("trailer", "x-sum")
            .body(trailer_body("up"));
        let response = client.send(request.expect("a request")).await;
        let response = response.expect("a response");
        assert_eq!(response.headers()["x-got"], "up");
        assert_eq!(response.headers()["x-te"], "trailers");
        let whole = response.into_body().collect().await.expect("a body");
        assert_eq!(whole.trailers().expect("trailers")["x-sum"], "down");
    }
}

#[tokio::test]
async fn a_head_request_has_the_length_and_no_body() {
    let lab = Lab::new();
    lab.origin(|_| async {
        let response = Response::builder().header("content-length", "12345");
        response.body(full("")).expect("a response")
    });
    let address = lab.listen(false).await;
    let (mut client, _open) = Client::connect(&lab.tasks, address, false).await;
    for _ in 0..2 {
        let request = Request::head("http://a.example.com/").body(full(""));
        let response = client.send(request.expect("a request")).await;
        let response = response.expect("a response");
        assert_eq!(response.headers()["content-length"], "12345");
        assert_eq!(text(response.into_body()).await, "");
    }
    assert_eq!(lab.dialer.dials.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_work_of_the_origin() {
    let lab = Lab::new();
    let gone = CancellationToken::new();
    let (began, begins) = oneshot::channel::<()>();
    let began = Mutex::new(Some(began));
    let told = gone.clone();
    lab.origin(move |_| {
        drop(began.lock().expect("whole").take());
        let guard = told.clone().drop_guard();
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let address = lab.listen(false).await;
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = b"GET / HTTP/1.1\r\nhost: a.example.com\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    with_timeout("the origin gets the request", begins)
        .await
        .expect_err("dropped");
    drop(stream);
    with_timeout("the origin sees the abort", gone.cancelled()).await;
}

#[tokio::test]
async fn an_origin_that_breaks_off_breaks_the_response_off() {
    for two in [false, true] {
        let lab = Lab::new();
        let seen = CancellationToken::new();
        let half_seen = seen.clone();
        lab.origin(move |_| {
            let seen = half_seen.clone();
            let half = stream::iter([Ok(Frame::data(Bytes::from("half")))]);
            let breaks = stream::once(async move {
                seen.cancelled().await;
                Err("a defect".into())
            });
            let body = StreamBody::new(half.chain(breaks)).boxed_unsync();
            async { Response::new(body) }
        });
        let address = lab.listen(false).await;
        let (mut client, _open) = Client::connect(&lab.tasks, address, two).await;
        let request = Request::get("http://a.example.com/").body(full(""));
        let response = client.send(request.expect("a request")).await;
        let mut body = response.expect("a response").into_body();
        let half = with_timeout("half of it", body.frame()).await;
        let half = half.expect("a piece").expect("whole");
        assert_eq!(half.into_data().expect("data"), "half");
        seen.cancel();
        let rest = with_timeout("the end", body.collect()).await;
        assert!(rest.is_err(), "a truncated body is not presented as complete");
    }
}

/// The responses to a client that waits for "100 Continue": the first one, and the rest.
async fn send_expecting(lab: &Lab, body: &[u8]) -> (String, String) {
    let address = lab.listen(false).await;
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = b"POST / HTTP/1.1\r\nhost: a.example.com\r\nexpect: 100-continue\r\n\
        connection: close\r\ncontent-length: 4\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    let mut first = vec![0; 25];
    with_timeout("the first answer", stream.read_exact(&mut first))
        .await
        .expect("an answer");
    stream.write_all(body).await.expect("sent");
    let mut rest = String::new();
    with_timeout("the rest", stream.read_to_string(&mut rest))
        .await
        .expect("read");
    let first = String::from_utf8(first).expect("text");
    (first, rest)
}

#[tokio::test]
async fn a_client_gets_100_continue_when_the_origin_accepts_the_body() {
    let lab = Lab::new();
    lab.origin(|request| async { Response::new(full(text(request.into_body()).await)) });
    let (first, rest) = send_expecting(&lab, b"body").await;
    assert_eq!(first, "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(rest.starts_with("HTTP/1.1 200 OK"), "{rest}");
    assert!(rest.ends_with("body"), "{rest}");
}

#[tokio::test]
async fn a_client_gets_no_100_continue_when_the_origin_refuses() {
    let lab = Lab::new();
    lab.origin(|_| async {
        let refusal = Response::builder().status(413);
        refusal.body(full("")).expect("a response")
    });
    let (first, _) = send_expecting(&lab, b"").await;
    assert!(first.starts_with("HTTP/1.1 413"), "{first}");
}
