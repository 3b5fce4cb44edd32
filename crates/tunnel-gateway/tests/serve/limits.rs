//! Limits: the excess is rejected, and other requests are not affected.

use std::time::Duration;

use aplomb_tunnel_gateway::limits::ListenerLimits;
use aplomb_tunnel_gateway::proxy::ProxySettings;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lab::{Client, Lab, full, text, with_timeout};

fn lab(limits: ListenerLimits) -> Lab {
    Lab::with(ProxySettings {
        limits,
        ..ProxySettings::default()
    })
}

fn get(url: &str) -> Request<crate::lab::Body> {
    Request::get(url).body(full("")).expect("a request")
}

#[tokio::test]
async fn a_tunnel_at_its_limit_touches_no_other() {
    let lab = lab(ListenerLimits {
        requests_per_tunnel: 2,
        ..ListenerLimits::default()
    });
    lab.origin(|_| async {
        let forever = StreamBody::new(futures::stream::pending());
        Response::new(forever.boxed_unsync())
    });
    let first = lab.send(get("http://a.example.com/")).await;
    let _second = lab.send(get("http://a.example.com/")).await;
    assert_eq!(first.status(), 200);
    let third = lab.send(get("http://a.example.com/")).await;
    assert_eq!(third.status(), 503);
    assert_eq!(third.headers()["x-aplomb-reason"], "TooMany");
    assert_eq!(lab.get("http://b.example.com/").await.0, 200);
    drop(first);
    let next = lab.send(get("http://a.example.com/")).await;
    assert_eq!(next.status(), 200, "a finished request frees its slot");
}

/// The complete response of a server to some bytes.
async fn send_raw(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    // The server may close the connection during this write.
    let _ = stream.write_all(bytes).await;
    let mut said = Vec::new();
    let _ = with_timeout("an answer", stream.read_to_end(&mut said)).await;
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let lab = lab(ListenerLimits {
        header_bytes: 8192,
        headers: 16,
        ..ListenerLimits::default()
    });
    let address = lab.listen(false).await;
    let long = "x".repeat(10_000);
    let request = format!("GET / HTTP/1.1\r\nhost: a.example.com\r\nx-long: {long}\r\n\r\n");
    let said = send_raw(address, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    let many = "x-more: 1\r\n".repeat(20);
    let request = format!("GET / HTTP/1.1\r\nhost: a.example.com\r\n{many}\r\n");
    let said = send_raw(address, request.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    let (mut client, _open) = Client::connect(&lab.tasks, address, true).await;
    let mut request = get("http://a.example.com/");
    for number in 0..20 {
        let name: http::HeaderName = format!("x-{number}").parse().expect("a name");
        request.headers_mut().insert(name, 1.into());
    }
    let response = client.send(request).await.expect("a response");
    assert_eq!(response.status(), 431);
    let response = client.send(get("http://a.example.com/")).await;
    let response = response.expect("the connection stays open");
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_silent_client_is_disconnected() {
    let lab = lab(ListenerLimits {
        header_timeout: Duration::from_millis(50),
        ..ListenerLimits::default()
    });
    let address = lab.listen(false).await;
    assert_eq!(send_raw(address, b"").await, "");
    assert_eq!(send_raw(address, b"PR").await, "");
    let said = send_raw(address, b"GET / HTTP/1.1\r\nhost: a.exam").await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
}

#[tokio::test]
async fn connections_of_one_client_are_limited() {
    let lab = lab(ListenerLimits {
        connections_per_client: 1,
        ..ListenerLimits::default()
    });
    let address = lab.listen(false).await;
    let (mut client, open) = Client::connect(&lab.tasks, address, false).await;
    let response = client.send(get("http://a.example.com/")).await;
    text(response.expect("a response").into_body()).await;
    let said = send_raw(address, b"GET / HTTP/1.1\r\nhost: a.example.com\r\n\r\n").await;
    assert_eq!(said, "", "the second is closed at once");
    drop((client, open));
    let request = b"GET / HTTP/1.1\r\nhost: a.example.com\r\nconnection: close\r\n\r\n";
    let again = async {
        loop {
            let said = send_raw(address, request).await;
            if said.starts_with("HTTP/1.1 200") {
                return;
            }
        }
    };
    with_timeout("room", again).await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_is_aborted_in_either_direction() {
    let idle = Duration::from_secs(20);
    let lab = lab(ListenerLimits {
        body_idle: idle,
        ..ListenerLimits::default()
    });
    lab.origin(|request| async { Response::new(full(text(request.into_body()).await)) });
    let forever = || StreamBody::new(futures::stream::pending()).boxed_unsync();
    let request = Request::post("http://a.example.com/").body(forever());
    let began = tokio::time::Instant::now();
    let response = lab.send(request.expect("a request")).await;
    assert_eq!(response.status(), 408);
    assert_eq!(response.headers()["x-aplomb-reason"], "ClientTimeout");
    assert_eq!(began.elapsed(), idle);
    lab.origin(move |_| async move { Response::new(forever()) });
    let began = tokio::time::Instant::now();
    let response = lab.send(get("http://a.example.com/")).await;
    assert_eq!(response.status(), 200);
    let whole = response.into_body().collect().await;
    assert!(whole.is_err(), "the response is aborted");
    assert_eq!(began.elapsed(), idle);
}

#[tokio::test]
async fn an_idle_upgraded_connection_is_closed() {
    let lab = lab(ListenerLimits {
        upgrade_idle: Duration::from_millis(80),
        ..ListenerLimits::default()
    });
    crate::upgrade::echo_websocket(&lab);
    let address = lab.listen(false).await;
    let request = b"GET / HTTP/1.1\r\nhost: a.example.com\r\nconnection: upgrade\r\n\
        upgrade: websocket\r\nsec-websocket-key: x\r\n\r\n";
    let said = send_raw(address, request).await;
    assert!(said.starts_with("HTTP/1.1 101"), "{said}");
}
