//! What a server does with more than it takes on: refuse, cut off, and go on for everybody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use aplomb_apiserver::ApiServer;
use aplomb_apiserver::auth::Tokens;
use aplomb_apiserver::call::{Call, Verb};
use aplomb_apiserver::http::{Handle, Limits, Service, admin, serve};
use aplomb_apiserver::storage::Window;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn start(limits: Limits, behind: usize) -> (Handle, ApiServer) {
    let window = Window {
        behind,
        ..Window::default()
    };
    let server = ApiServer::builder().window(window).build();
    let tokens = Tokens::default();
    tokens.insert("token", admin());
    let service = Service::limited(server.clone(), tokens, None, limits);
    let address = ([127, 0, 0, 1], 0).into();
    let handle = serve(service, address, None).await.expect("a free port");
    (handle, server)
}

fn head(method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: box\r\nauthorization: Bearer token\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

async fn open(handle: &Handle) -> TcpStream {
    TcpStream::connect(handle.address()).await.expect("accepted")
}

/// Reads until the text is there or the peer closes; what was read.
async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut read = Vec::new();
    let mut bytes = [0; 65536];
    let reading = async {
        while !String::from_utf8_lossy(&read).contains(wanted) {
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => break,
                Ok(count) => read.extend(&bytes[..count]),
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("an answer in time");
    String::from_utf8_lossy(&read).into_owned()
}

async fn get(stream: &mut TcpStream, path: &str) -> String {
    let sent = stream.write_all(head("GET", path, 0).as_bytes()).await;
    match sent {
        Ok(()) => read_until(stream, "\r\n\r\n").await,
        Err(_) => String::new(),
    }
}

#[tokio::test]
async fn a_connection_too_many_is_closed_and_the_others_go_on() {
    let limits = Limits {
        connections: 2,
        ..Limits::default()
    };
    let (handle, _) = start(limits, usize::MAX).await;
    let mut first = open(&handle).await;
    let mut second = open(&handle).await;
    assert!(get(&mut first, "/version").await.starts_with("HTTP/1.1 200"));
    assert!(get(&mut second, "/version").await.starts_with("HTTP/1.1 200"));
    let mut third = open(&handle).await;
    assert_eq!(get(&mut third, "/version").await, "");
    assert!(get(&mut first, "/version").await.starts_with("HTTP/1.1 200"));
    drop(second);
    let again = async {
        // The place is free when the server has noticed.
        while !get(&mut open(&handle).await, "/version")
            .await
            .starts_with("HTTP/1.1 200")
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.expect("a free place");
    handle.stop().await;
}

#[tokio::test]
async fn a_write_too_many_is_told_to_come_back() {
    let limits = Limits {
        mutating_requests: Some(1),
        requests: Some(1),
        ..Limits::default()
    };
    let (handle, _) = start(limits, usize::MAX).await;
    // A watch does not count, and lasts.
    let mut watch = open(&handle).await;
    let path = format!("{CONFIG_MAPS}?watch=true");
    assert!(get(&mut watch, &path).await.starts_with("HTTP/1.1 200"));
    let mut slow = open(&handle).await;
    let begun = head("POST", CONFIG_MAPS, 100) + "{";
    slow.write_all(begun.as_bytes()).await.expect("sent");
    let mut other = open(&handle).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let whole = head("POST", CONFIG_MAPS, body.to_string().len()) + &body.to_string();
    let refused = loop {
        // Until the server has begun with the first.
        other.write_all(whole.as_bytes()).await.expect("sent");
        let answer = read_until(&mut other, "\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 429") {
            break answer.to_lowercase();
        }
        other = open(&handle).await;
    };
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(refused.contains("text/plain"), "{refused}");
    let mut reader = open(&handle).await;
    assert!(get(&mut reader, CONFIG_MAPS).await.starts_with("HTTP/1.1 200"));
    handle.stop().await;
}

/// Counts events, telling how many so far, until the last one has come or the stream ends; whether
/// it ended cleanly.
async fn count(stream: TcpStream, last: &str, seen: &AtomicUsize) -> bool {
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = timeout(PATIENCE, lines.read_until(b'\n', &mut line)).await;
        if read.expect("an event in time").expect("no reset") == 0 {
            return false;
        }
        let text = String::from_utf8_lossy(&line);
        if text.contains("\"type\":\"ADDED\"") {
            seen.fetch_add(1, Relaxed);
        }
        if text == "0\r\n" || text.contains(last) {
            return text == "0\r\n";
        }
    }
}

async fn watch(handle: &Handle) -> TcpStream {
    let mut stream = open(handle).await;
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion=1&labelSelector=example.com/slow");
    assert!(get(&mut stream, &path).await.starts_with("HTTP/1.1 200"));
    stream
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_cut_off_and_costs_nobody_anything() {
    const WRITES: usize = 1000;
    const BEHIND: usize = 100;
    let (handle, server) = start(Limits::default(), BEHIND).await;
    let slow = watch(&handle).await;
    let quick = watch(&handle).await;
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let last = format!("\"name\":\"n{:04}\"", WRITES - 1);
    let reading = tokio::spawn(async move { count(quick, &last, &counter).await });
    let resource = server.resource("", "v1", "configmaps").expect("built in");
    for number in 0..WRITES {
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": format!("n{number:04}"),
                "labels": { "example.com/slow": "" },
            },
            "data": { "text": "x".repeat(30_000) },
        });
        let create = Call::new(Verb::Create, resource.clone()).namespace("default");
        server.call(create.body(&body)).await.expect("created");
        // One that reads is never far behind.
        while seen.load(Relaxed) + BEHIND / 2 < number && !reading.is_finished() {
            tokio::task::yield_now().await;
        }
    }
    reading.await.expect("no panic");
    assert_eq!(seen.load(Relaxed), WRITES, "who reads sees all");
    let late = AtomicUsize::new(0);
    assert!(count(slow, "nothing", &late).await, "a clean end");
    assert!(late.load(Relaxed) < WRITES, "it was cut off");
    handle.stop().await;
}
