//! The control plane under `/_sim`, and faults of every class.

use std::time::Duration;

use aplomb_fake_services::coderd::serve;
use serde_json::{Value, json};

use super::{BUILDER, KEYS, OWNER, call, coderd, get, new_key, order, put, request, send, status};

#[tokio::test(start_paused = true)]
async fn a_state_can_be_put_back_as_it_was() {
    let coderd = coderd(|config| config.ends_sessions = true);
    let key = new_key(&coderd, "build").await;
    drop(coderd.connect_daemon(&key));
    new_key(&coderd, "gone").await;
    drop(coderd.connect_daemon(&key));
    coderd.delete_key("coder", "gone");
    get(&coderd, "/api/v2/users/me").await;
    let (status, before) = get(&coderd, "/_sim/state").await;
    assert_eq!(status, 200);
    let (status, after) = call(&coderd, "PUT", "/_sim/state", before.clone()).await;
    assert_eq!((status, &after), (200, &before));
    assert_eq!(before["daemons"].as_array().map(Vec::len), Some(2));
    assert!(coderd.key_with(&key).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_as_a_whole() {
    let coderd = coderd(|_| {});
    let (_, before) = get(&coderd, "/_sim/state").await;
    for change in [
        json!({"limit": 1, "keys": [{"name": "a"}, {"name": "A"}]}),
        json!({"limit": 1, "keys": [{"name": "a", "organization": "nowhere"}]}),
        json!({"limit": 1, "users": [{"role": "owner"}]}),
        json!({"limit": 1, "proxies": [{"name": "a"}, {"name": "a"}]}),
        json!({"limit": 1, "users": [{"name": "a", "role": "king"}]}),
        json!({"limits": 1}),
    ] {
        let (status, body) = call(&coderd, "PUT", "/_sim/state", change.clone()).await;
        assert_eq!(status, 400, "{change}");
        assert!(body["error"].as_str().is_some_and(|why| !why.is_empty()));
    }
    assert_eq!(get(&coderd, "/_sim/state").await.1, before);
}

#[tokio::test(start_paused = true)]
async fn users_and_their_tokens_can_be_replaced() {
    let coderd = coderd(|_| {});
    let users = json!({"users": [{"name": "new", "role": "owner", "tokens": ["fresh"]}]});
    put(&coderd, users);
    assert_eq!(status(&coderd, OWNER, "GET", KEYS).await, 401);
    assert_eq!(status(&coderd, "fresh", "GET", KEYS).await, 200);
    let (_, state) = get(&coderd, "/_sim/state").await;
    assert!(!state.to_string().contains("fresh"), "{state}");
}

#[tokio::test(start_paused = true)]
async fn every_class_can_be_ordered_and_takes_effect_only_if_told_to() {
    let coderd = coderd(|_| {});
    for class in [400, 401, 403, 404, 409, 412, 422, 428, 429, 500, 502, 503, 504] {
        order(&coderd, json!({"method": "POST", "status": class, "times": 1}));
        let (status, _) = call(&coderd, "POST", KEYS, json!({"name": "x"})).await;
        assert_eq!(status, class);
    }
    assert_eq!(coderd.keys(), []);
    order(
        &coderd,
        json!({"method": "POST", "status": 500, "commit": true, "times": 1}),
    );
    assert_eq!(call(&coderd, "POST", KEYS, json!({"name": "x"})).await.0, 500);
    assert_eq!(coderd.keys().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_lost_late_or_never_comes() {
    let coderd = coderd(|_| {});
    let post = |name: &str| request(OWNER, "POST", KEYS, &json!({"name": name}));
    order(&coderd, json!({"method": "POST", "reset": "before", "times": 1}));
    send(&coderd, post("a")).await.expect_err("it is reset");
    assert_eq!(coderd.keys(), []);
    order(&coderd, json!({"method": "POST", "reset": "after", "times": 1}));
    send(&coderd, post("a")).await.expect_err("it is reset");
    order(&coderd, json!({"method": "POST", "hang": "after", "times": 1}));
    let hour = Duration::from_secs(3600);
    let hung = tokio::time::timeout(hour, send(&coderd, post("b"))).await;
    assert!(hung.is_err());
    assert_eq!(coderd.keys().len(), 2);
    order(&coderd, json!({"delay": "30s", "body": "<html>", "times": 1}));
    let begin = tokio::time::Instant::now();
    let answer = send(&coderd, post("c")).await.expect("an answer");
    assert_eq!(
        (begin.elapsed(), &answer.body()[..]),
        (Duration::from_secs(30), &b"<html>"[..])
    );
    let statuses: Vec<_> = coderd.requests().iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [None, None, None, Some(200)]);
}

#[tokio::test(start_paused = true)]
async fn noise_draws_from_the_budget_of_its_user_and_path() {
    let coderd = coderd(|config| config.limit = 60);
    let noise = json!({"kind": "noise", "name": "script", "user": "admin", "path": KEYS, "rate": 2});
    let (status_code, body) = call(&coderd, "POST", "/_sim/clients", noise).await;
    assert_eq!((status_code, &body["clients"][0]["name"]), (200, &json!("script")));
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(status(&coderd, OWNER, "GET", KEYS).await, 429);
    assert_eq!(status(&coderd, BUILDER, "GET", KEYS).await, 200);
    let log = coderd.requests();
    let passed = log
        .iter()
        .filter(|entry| entry.client == "script" && entry.status == Some(200));
    assert_eq!(passed.count(), 60);
    let (_, body) = call(&coderd, "DELETE", "/_sim/clients/script", Value::Null).await;
    assert_eq!(body["removed"], 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_faults_and_clients_is_said() {
    let coderd = coderd(|_| {});
    for (path, wrong) in [
        ("/_sim/faults", json!({"status": 99})),
        ("/_sim/faults", json!({"stauts": 500})),
        ("/_sim/faults", json!({"probability": 2})),
        ("/_sim/faults", json!({"code": "locked"})),
        ("/_sim/faults", json!({"action": {}})),
        (
            "/_sim/clients",
            json!({"kind": "noise", "name": "x", "path": "/", "rate": 0}),
        ),
        (
            "/_sim/clients",
            json!({"kind": "noise", "name": "x", "path": "/", "rate": 1, "user": "nobody"}),
        ),
        ("/_sim/clients", json!({"kind": "daemons", "name": ""})),
        ("/_sim/clients", json!({"kind": "jobs", "key": "none", "job": "1s"})),
        ("/_sim/clients", json!({"kind": "dragons"})),
    ] {
        let (status, body) = call(&coderd, "POST", path, wrong.clone()).await;
        assert_eq!(status, 400, "{wrong}");
        assert!(body["error"].as_str().is_some_and(|why| !why.is_empty()));
    }
}

#[tokio::test]
async fn it_serves_over_http() {
    let coderd = coderd(|_| {});
    let any = "127.0.0.1:0".parse().expect("an address");
    let running = serve(coderd.service(), any).await.expect("a free port");
    let url = running.url();
    let address = url.strip_prefix("http://").expect("plain HTTP");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = "GET /api/v2/buildinfo HTTP/1.1\r\nHost: sim\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    let write = tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes());
    write.await.expect("it is sent");
    let read = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer);
    read.await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("x-ratelimit-remaining: 511\r\n"), "{answer}");
    assert_eq!(coderd.requests()[0].identity, "127.0.0.1");
    running.stop().await;
}
