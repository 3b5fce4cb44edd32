//! The control plane under `/_sim`.

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tower::Service as _;

use super::{ASSIGN, TOKEN, call, get, hetzner};

#[tokio::test(start_paused = true)]
async fn a_state_can_be_put_back_as_it_was() {
    let hetzner = hetzner(|_| {});
    call(&hetzner, "POST", ASSIGN, json!({"server": 2})).await;
    let (status, before) = get(&hetzner, "/_sim/state").await;
    assert_eq!(status, 200);
    let (status, after) = call(&hetzner, "PUT", "/_sim/state", before.clone()).await;
    assert_eq!((status, &after), (200, &before));
    assert_eq!(before["actions"][0]["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_put_replaces_what_it_names_and_ids_stay() {
    let hetzner = hetzner(|_| {});
    let servers = json!({"servers": [{"name": "one"}, {"name": "two"}, {"name": "three"}]});
    let (_, state) = call(&hetzner, "PUT", "/_sim/state", servers.clone()).await;
    let id = |state: &Value, name: &str| {
        let servers = state["servers"].as_array().expect("a list");
        let found = servers.iter().find(|server| server["name"] == name);
        found.expect("it is there")["id"].as_u64().expect("a number")
    };
    assert_eq!((id(&state, "one"), id(&state, "two")), (1, 2));
    assert_eq!(state["floating_ips"][0]["server"], 1);
    let (_, again) = call(&hetzner, "PUT", "/_sim/state", servers).await;
    assert_eq!(id(&again, "three"), id(&state, "three"));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_as_a_whole() {
    let hetzner = hetzner(|_| {});
    let (_, before) = get(&hetzner, "/_sim/state").await;
    for change in [
        json!({"servers": [{"id": 5, "name": "a"}, {"id": 5, "name": "b"}]}),
        json!({"servers": [{"id": 5, "name": "a"}, {"id": 6, "name": "a"}]}),
        json!({"servers": [], "floating_ips": [{"name": "x", "ip": "192.0.2.1", "server": 5}]}),
        json!({"floating_ips": [{"name": "x", "ip": "192.0.2.1", "sever": 5}]}),
        json!({"buckets": [{"name": "nobody", "remaining": 1}]}),
        json!({"sever": []}),
    ] {
        let (status, body) = call(&hetzner, "PUT", "/_sim/state", change.clone()).await;
        assert_eq!(status, 400, "{change}");
        assert!(body["error"].as_str().is_some_and(|why| !why.is_empty()));
    }
    assert_eq!(get(&hetzner, "/_sim/state").await.1, before);
}

#[tokio::test(start_paused = true)]
async fn requests_are_told_with_client_and_lane_and_the_control_plane_is_free() {
    let hetzner = hetzner(|_| {});
    let request = Request::get("/v1/floating_ips?name=egress")
        .header("Authorization", format!("Bearer {TOKEN}"))
        .header("User-Agent", "operator/1.2 (linux)")
        .header("x-aplomb-lane", "routine")
        .body(Bytes::new())
        .expect("a request");
    hetzner.service().call(request).await.expect("an answer");
    get(&hetzner, "/v1/servers").await;
    let (_, body) = get(&hetzner, "/_sim/requests?since=0").await;
    let first = &body["requests"][0];
    let expected = json!({
        "n": 1, "time": "2026-01-01T00:00:00Z", "client": "operator", "token": "token-1",
        "bucket": "default", "method": "GET", "path": "/v1/floating_ips", "query": "name=egress",
        "status": 200, "code": null, "remaining": 3599, "lane": "routine", "fault": null,
    });
    assert_eq!(first, &expected);
    let (_, body) = get(&hetzner, "/_sim/requests?since=1").await;
    assert_eq!(body["requests"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["requests"][0]["client"], "token-1");
    assert_eq!(hetzner.remaining("default"), 3598);
}

#[tokio::test(start_paused = true)]
async fn faults_and_clients_come_and_go() {
    let hetzner = hetzner(|_| {});
    let (status, body) = call(&hetzner, "POST", "/_sim/faults", json!({"status": 503})).await;
    assert_eq!((status, body["id"].as_u64()), (200, Some(1)));
    assert_eq!(get(&hetzner, "/v1/servers").await.0, 503);
    let (_, body) = call(&hetzner, "DELETE", "/_sim/faults/1", Value::Null).await;
    assert_eq!(body["removed"], 1);
    assert_eq!(get(&hetzner, "/v1/servers").await.0, 200);
    let noise = json!({"name": "caph", "shape": "caph", "rate": 1});
    let (_, body) = call(&hetzner, "POST", "/_sim/clients", noise).await;
    assert_eq!(body["clients"][0]["name"], "caph");
    let (_, body) = call(&hetzner, "DELETE", "/_sim/clients", Value::Null).await;
    assert_eq!(body["removed"], 1);
    for (path, wrong) in [
        ("/_sim/faults", json!({"status": 99})),
        ("/_sim/faults", json!({"stauts": 500})),
        ("/_sim/clients", json!({"name": "x"})),
        ("/_sim/clients", json!({"name": "x", "rate": 1, "bucket": "nobody"})),
    ] {
        let (status, _) = call(&hetzner, "POST", path, wrong.clone()).await;
        assert_eq!(status, 400, "{wrong}");
    }
    assert_eq!(get(&hetzner, "/_sim/nothing").await.0, 404);
    assert_eq!(call(&hetzner, "POST", "/_sim/state", json!({})).await.0, 405);
}
