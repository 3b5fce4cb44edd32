//! WebSocket and other upgrades: bytes in both directions, over HTTP/1.1 and over an HTTP/2 stream.

use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::lab::{Client, Lab, full, with_timeout};

/// An origin that accepts any upgrade to WebSocket and echoes its input.
pub(crate) fn echo_websocket(lab: &Lab) {
    let tasks = lab.tasks.clone();
    let kept = std::sync::Mutex::new(Vec::new());
    lab.origin(move |mut request| {
        let asked = request.headers().get("upgrade").cloned();
        let has_key = request.headers().contains_key("sec-websocket-key");
        let method = request.method().clone();
        let upgrade = hyper::upgrade::on(&mut request);
        let task = tasks.spawn(async move {
            let Ok(stream) = upgrade.await else { return };
            let (mut read, mut write) = tokio::io::split(TokioIo::new(stream));
            // The test may have stopped reading.
            let _ = tokio::io::copy(&mut read, &mut write).await;
            let _ = write.shutdown().await;
        });
        kept.lock().expect("whole").push(task);
        async move {
            assert_eq!(asked.expect("an upgrade"), "websocket");
            assert!(has_key);
            assert_eq!(method, Method::GET);
            let response = Response::builder()
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .header("upgrade", "websocket")
                .header("connection", "upgrade")
                .header("sec-websocket-accept", "accepted");
            response.body(full("")).expect("a response")
        }
    });
}

async fn exchange_messages(upgraded: hyper::upgrade::Upgraded) {
    let mut stream = TokioIo::new(upgraded);
    for round in 0..3 {
        let said = vec![round; 70_000];
        let mut heard = vec![0; said.len()];
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let (sent, got) = tokio::join!(write.write_all(&said), read.read_exact(&mut heard));
        sent.expect("sent");
        got.expect("received");
        assert_eq!(said, heard);
    }
    stream.shutdown().await.expect("closed");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("the end");
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_websocket_carries_bytes_both_ways() {
    let lab = Lab::new();
    echo_websocket(&lab);
    let address = lab.listen(false).await;
    let (mut client, _open) = Client::connect(&lab.tasks, address, false).await;
    let request = Request::get("http://a.example.com/chat")
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(full(""));
    let response = client.send(request.expect("a request")).await;
    let response = response.expect("a response");
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["upgrade"], "websocket");
    assert_eq!(response.headers()["sec-websocket-accept"], "accepted");
    assert_eq!(response.headers()["x-aplomb-revision"], "rev-a");
    let upgraded = hyper::upgrade::on(response).await.expect("upgraded");
    with_timeout("the chat", exchange_messages(upgraded)).await;
}

#[tokio::test]
async fn a_stream_of_http2_becomes_a_websocket() {
    let lab = Lab::new();
    echo_websocket(&lab);
    let address = lab.listen(false).await;
    let (mut client, _open) = Client::connect(&lab.tasks, address, true).await;
    // The server announces extended CONNECT in its settings, which arrive with the first response.
    let request = Request::head("http://b.example.com/").body(full(""));
    let first = client.send(request.expect("a request")).await;
    drop(first.expect("a response").into_body().collect().await);
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .version(Version::HTTP_2)
        .uri("http://a.example.com/chat")
        .body(full(""))
        .expect("a request");
    let websocket = Protocol::from_static("websocket");
    request.extensions_mut().insert(websocket);
    let response = client.send(request).await.expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers().get("sec-websocket-accept"), None);
    let upgraded = hyper::upgrade::on(response).await.expect("upgraded");
    with_timeout("the chat", exchange_messages(upgraded)).await;
}

#[tokio::test]
async fn an_origin_that_refuses_the_upgrade_answers_normally() {
    let lab = Lab::new();
    let address = lab.listen(false).await;
    let (mut client, _open) = Client::connect(&lab.tasks, address, false).await;
    let request = Request::get("http://a.example.com/")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .body(full(""));
    let response = client.send(request.expect("a request")).await;
    assert_eq!(response.expect("a response").status(), StatusCode::OK);
}

#[tokio::test]
async fn h2c_upgrades_do_not_bypass_the_rules() {
    let lab = Lab::new();
    let request = Request::get("http://a.example.com/")
        .header("connection", "upgrade, http2-settings")
        .header("upgrade", "h2c")
        .header("http2-settings", "AAMAAABkAAQAAP__")
        .body(full(""));
    let response = lab.send(request.expect("a request")).await;
    let seen = crate::lab::text(response.into_body()).await;
    assert!(!seen.contains("upgrade"), "{seen}");
    assert!(!seen.contains("http2-settings"), "{seen}");
}
