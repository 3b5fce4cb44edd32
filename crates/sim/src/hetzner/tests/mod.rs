//! The simulator in virtual time, through its service.

mod calls;

use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::{BoxError, Service as _};

use super::{Change, Config, Hetzner};
use crate::clock::Clock;

pub(super) const TOKEN: &str = "first-half-of-token-second-half-of-token";

/// A fresh one with two servers (1, 2) and one floating IP (10) on server 1.
pub(super) fn hetzner(bend: impl FnOnce(&mut Config)) -> Hetzner {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let mut config = Config::new(Clock::new(epoch, 7), 7, TOKEN);
    bend(&mut config);
    let hetzner = Hetzner::new(config);
    hetzner.change(change(two_servers())).expect("it fits");
    hetzner
}

pub(super) fn two_servers() -> Value {
    json!({
        "servers": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
        "floating_ips": [{"id": 10, "name": "egress", "ip": "192.0.2.10", "server": 1}],
    })
}

pub(super) fn change(value: Value) -> Change {
    serde_json::from_value(value).expect("a change")
}

pub(super) async fn send(
    hetzner: &Hetzner,
    method: &str,
    path: &str,
    body: Value,
) -> Result<Response<Bytes>, BoxError> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Authorization", format!("Bearer {TOKEN}"))
        .body(body)?;
    hetzner.service().call(request).await
}

/// Status and JSON of an answer.
pub(super) async fn call(hetzner: &Hetzner, method: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = send(hetzner, method, path, body).await.expect("an answer");
    let json = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
    (answer.status().as_u16(), json)
}

pub(super) async fn get(hetzner: &Hetzner, path: &str) -> (u16, Value) {
    call(hetzner, "GET", path, Value::Null).await
}
