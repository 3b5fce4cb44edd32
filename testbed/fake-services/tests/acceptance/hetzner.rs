//! The simulated Hetzner Cloud through its service, in virtual time.

mod bucket;
mod calls;
mod control;
mod docs;
mod faults;
mod limits;
mod noise;
mod wire;

use aplomb_apimachinery::clock::Clock;
use aplomb_fake_services::hcloud::{Change, Config, FakeHcloud, Fault};
use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::{BoxError, Service as _};

const TOKEN: &str = "first-half-of-the-tokenSECOND-HALF-OF-THE-TOKEN";
const ASSIGN: &str = "/v1/floating_ips/10/actions/assign";

/// A fresh one with two servers (1, 2) and one floating IP (10) on server 1.
fn hetzner(bend: impl FnOnce(&mut Config)) -> FakeHcloud {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let mut config = Config::new(Clock::new(epoch, 7), 7, TOKEN);
    bend(&mut config);
    let hetzner = FakeHcloud::new(config);
    put(
        &hetzner,
        json!({
            "servers": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
            "floating_ips": [{"id": 10, "name": "egress", "ip": "192.0.2.10", "server": 1}],
        }),
    );
    hetzner
}

fn put(hetzner: &FakeHcloud, change: Value) {
    let change: Change = serde_json::from_value(change).expect("a change");
    hetzner.change(change).expect("it fits together");
}

fn order(hetzner: &FakeHcloud, fault: Value) -> u64 {
    let fault: Fault = serde_json::from_value(fault).expect("a fault");
    hetzner.fault(fault)
}

async fn send_as(
    hetzner: &FakeHcloud,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Response<Bytes>, BoxError> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Authorization", format!("Bearer {token}"))
        .body(body)?;
    hetzner.service().call(request).await
}

async fn send(hetzner: &FakeHcloud, method: &str, path: &str, body: Value) -> Result<Response<Bytes>, BoxError> {
    send_as(hetzner, TOKEN, method, path, &body).await
}

/// Status and JSON of an answer.
async fn call(hetzner: &FakeHcloud, method: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = send(hetzner, method, path, body).await.expect("an answer");
    let json = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
    (answer.status().as_u16(), json)
}

async fn get(hetzner: &FakeHcloud, path: &str) -> (u16, Value) {
    call(hetzner, "GET", path, Value::Null).await
}

/// Status and `error.code` of a refusal.
async fn refusal(hetzner: &FakeHcloud, method: &str, path: &str, body: Value) -> (u16, String) {
    let (status, body) = call(hetzner, method, path, body).await;
    let code = body["error"]["code"].as_str().unwrap_or_default();
    (status, code.to_owned())
}

/// The value of a header as a number.
fn number(answer: &Response<Bytes>, header: &str) -> i64 {
    let value = answer.headers().get(header).expect("the header is there");
    value.to_str().expect("text").parse().expect("a number")
}
