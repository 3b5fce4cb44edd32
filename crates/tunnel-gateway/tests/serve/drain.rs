//! Shutdown: requests in flight are finished.

use std::sync::Arc;
use std::time::Duration;

use aplomb_tunnel_gateway::proxy::{ProxySettings, ServePhase};
use http::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::lab::{Client, Lab, full, text, with_timeout};

fn lab() -> Lab {
    Lab::with(ProxySettings {
        drain_delay: Duration::from_millis(20),
        ..ProxySettings::default()
    })
}

/// An origin that responds when permitted, and a count of the waiting requests.
fn slow_origin(lab: &Lab) -> (Arc<Semaphore>, Arc<Semaphore>) {
    let (waits, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (waiting, gate) = (waits.clone(), go.clone());
    lab.origin(move |_| {
        waiting.add_permits(1);
        let gate = gate.clone();
        async move {
            gate.acquire().await.expect("open").forget();
            Response::new(full("finished"))
        }
    });
    (waits, go)
}

fn get() -> Request<crate::lab::Body> {
    let request = Request::get("http://a.example.com/").body(full(""));
    request.expect("a request")
}

async fn read_response(mut client: Client) -> Result<String, hyper::Error> {
    let response = client.send(get()).await?;
    Ok(text(response.into_body()).await)
}

#[tokio::test]
async fn no_request_under_way_is_dropped() {
    let lab = lab();
    lab.server.health().advance_to(ServePhase::Serving);
    let (waits, go) = slow_origin(&lab);
    let address = lab.listen(false).await;
    let mut open = Vec::new();
    let mut requests = Vec::new();
    for number in 0..20 {
        let (client, task) = Client::connect(&lab.tasks, address, number % 2 == 0).await;
        open.push(task);
        requests.push(lab.tasks.spawn(read_response(client)));
    }
    with_timeout("all wait", waits.acquire_many(20))
        .await
        .expect("open")
        .forget();
    let server = lab.server.clone();
    let deadline = Instant::now() + Duration::from_secs(30);
    let drained = lab.tasks.spawn(async move { server.drain(deadline).await });
    with_timeout("the drain begins", lab.server.health().wait_for(ServePhase::Draining)).await;
    assert!(!lab.server.health().is_ready());
    let refused = async { while TcpStream::connect(address).await.is_ok() {} };
    with_timeout("nothing more is accepted", refused).await;
    assert_eq!(lab.server.health().phase(), ServePhase::Draining);
    go.add_permits(20);
    for request in requests {
        let text = with_timeout("a response", request.join()).await;
        assert_eq!(text.expect("no panic").expect("no loss"), "finished");
    }
    with_timeout("the end", drained.join()).await;
    assert_eq!(lab.server.health().phase(), ServePhase::Stopped);
}

#[tokio::test]
async fn a_connection_is_closed_after_its_response() {
    let lab = Lab::with(ProxySettings {
        drain_delay: Duration::from_secs(30),
        ..ProxySettings::default()
    });
    let address = lab.listen(false).await;
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let server = lab.server.clone();
    let deadline = Instant::now() + Duration::from_secs(60);
    let _drained = lab.tasks.spawn(async move { server.drain(deadline).await });
    with_timeout("the drain begins", lab.server.health().wait_for(ServePhase::Draining)).await;
    let request = b"GET / HTTP/1.1\r\nhost: a.example.com\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    let mut said = String::new();
    with_timeout("a response", stream.read_to_string(&mut said))
        .await
        .expect("the connection ends by itself");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(said.to_lowercase().contains("connection: close"), "{said}");
}

#[tokio::test]
async fn the_deadline_ends_what_does_not_end() {
    let lab = lab();
    let (waits, _go) = slow_origin(&lab);
    let address = lab.listen(false).await;
    let (client, _open) = Client::connect(&lab.tasks, address, false).await;
    let request = lab.tasks.spawn(read_response(client));
    with_timeout("the request waits", waits.acquire())
        .await
        .expect("open")
        .forget();
    let deadline = Instant::now() + Duration::from_millis(100);
    with_timeout("the drain", lab.server.drain(deadline)).await;
    assert!(Instant::now() >= deadline);
    let outcome = with_timeout("the request", request.join()).await;
    assert!(outcome.expect("no panic").is_err(), "the request was aborted");
}

#[tokio::test]
async fn a_handshake_that_never_begins_holds_nothing_up() {
    let lab = lab();
    let address = lab.listen(true).await;
    let _idle = TcpStream::connect(address).await.expect("connected");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    with_timeout("the drain", lab.server.drain(deadline)).await;
    assert!(Instant::now() < deadline);
}

/// Repeats a request until the gateway closes the connection. Returns how often it got a response.
async fn request_until_closed(mut client: Client) -> usize {
    for number in 0.. {
        let response = match client.send(get()).await {
            Ok(response) => response,
            // An HTTP/2 client learns from GOAWAY that this request was not served.
            Err(error) => {
                assert!(matches!(client, Client::Two(_)), "{error}");
                return number;
            }
        };
        assert_eq!(response.status(), 200);
        let last = response.headers().contains_key("connection");
        assert!(!text(response.into_body()).await.is_empty());
        if last {
            return number + 1;
        }
    }
    unreachable!("the loop only ends by return")
}

#[tokio::test]
async fn clients_that_never_pause_lose_nothing() {
    let lab = lab();
    let address = lab.listen(false).await;
    let mut open = Vec::new();
    let mut clients = Vec::new();
    for number in 0..8 {
        let (client, task) = Client::connect(&lab.tasks, address, number % 2 == 0).await;
        open.push(task);
        clients.push(lab.tasks.spawn(request_until_closed(client)));
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    with_timeout("the drain", lab.server.drain(deadline)).await;
    for client in clients {
        let answers = with_timeout("a client", client.join()).await;
        assert!(answers.expect("nothing is lost") > 0);
    }
}

#[tokio::test]
async fn an_upgraded_connection_has_until_the_deadline() {
    let lab = lab();
    crate::upgrade::echo_websocket(&lab);
    let address = lab.listen(false).await;
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = b"GET / HTTP/1.1\r\nhost: a.example.com\r\nconnection: upgrade\r\n\
        upgrade: websocket\r\nsec-websocket-key: x\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        said.push(with_timeout("a response", stream.read_u8()).await.expect("more"));
    }
    let server = lab.server.clone();
    let deadline = Instant::now() + Duration::from_secs(3);
    let drained = lab.tasks.spawn(async move { server.drain(deadline).await });
    tokio::time::sleep(Duration::from_millis(60)).await;
    stream.write_all(b"ping").await.expect("sent");
    let mut pong = [0; 4];
    with_timeout("an echo", stream.read_exact(&mut pong))
        .await
        .expect("the stream stays open");
    assert_eq!(&pong, b"ping");
    with_timeout("the drain", drained.join()).await;
    assert!(Instant::now() >= deadline);
    let end = with_timeout("the end", stream.read(&mut pong)).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}
