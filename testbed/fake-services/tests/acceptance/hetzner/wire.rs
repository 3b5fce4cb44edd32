//! The same behind a socket.

use aplomb_fake_services::hcloud::serve;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TOKEN, hetzner, order};

/// Sends a request on a connection of its own and reads until the other end closes it.
async fn exchange(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: sim\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut answer = String::new();
    // A reset is an end, too.
    drop(stream.read_to_string(&mut answer).await);
    answer
}

#[tokio::test]
async fn it_serves_resets_and_stops() {
    let hetzner = hetzner(|_| {});
    let any = "127.0.0.1:0".parse().expect("an address");
    let running = serve(hetzner.service(), any).await.expect("a free port");
    let url = running.url();
    let address = url.strip_prefix("http://").expect("plain HTTP");
    let answer = exchange(address, "/v1/floating_ips/10").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("ratelimit-remaining: 3599\r\n"), "{answer}");
    order(&hetzner, json!({"reset": "after", "times": 1}));
    assert_eq!(exchange(address, "/v1/floating_ips/10").await, "");
    let answer = exchange(address, "/_sim/state").await;
    assert!(answer.contains("\"remaining\":3598"), "{answer}");
    let address = address.to_owned();
    running.stop().await;
    TcpStream::connect(address).await.expect_err("nobody listens");
}
