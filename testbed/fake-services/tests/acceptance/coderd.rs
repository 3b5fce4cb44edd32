//! The simulated coderd through its service, in virtual time.

mod bypass;
mod calls;
mod control;
mod daemons;
mod docs;
mod limiter;
mod limits;
mod pods;

use aplomb_apimachinery::clock::Clock;
use aplomb_fake_services::coderd::{Change, Config, FakeCoderd, Fault, Role, User};
use bytes::Bytes;
use http::{Request, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::{BoxError, Service as _};

const OWNER: &str = "owner-token";
const BUILDER: &str = "template-admin-token";
const MEMBER: &str = "member-token";
const OTHER: &str = "token-of-another-organization";
const KEYS: &str = "/api/v2/organizations/default/provisionerkeys";
const PROXIES: &str = "/api/v2/workspaceproxies";

/// A fresh one with an owner, a template admin, a member, and a member of another organisation.
fn coderd(bend: impl FnOnce(&mut Config)) -> FakeCoderd {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let mut config = Config::new(Clock::new(epoch, 7), 7, OWNER);
    config.organizations.push("other".to_owned());
    config.users.extend([
        User::new("builder", Role::TemplateAdmin, BUILDER),
        User::new("member", Role::Member, MEMBER),
        User::new("stranger", Role::OrganizationAdmin, OTHER).of(&["other"]),
    ]);
    bend(&mut config);
    FakeCoderd::new(config)
}

fn put(coderd: &FakeCoderd, change: Value) {
    let change: Change = serde_json::from_value(change).expect("a change");
    coderd.change(change).expect("it fits together");
}

fn order(coderd: &FakeCoderd, fault: Value) -> u64 {
    let fault: Fault = serde_json::from_value(fault).expect("a fault");
    coderd.fault(fault)
}

fn request(token: &str, method: &str, path: &str, body: &Value) -> Request<Bytes> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    let mut request = Request::builder().method(method).uri(path);
    if !token.is_empty() {
        request = request.header("Coder-Session-Token", token);
    }
    request.body(body).expect("a request")
}

async fn send(coderd: &FakeCoderd, request: Request<Bytes>) -> Result<Response<Bytes>, BoxError> {
    coderd.service().call(request).await
}

/// Status and JSON of an answer.
async fn call_as(coderd: &FakeCoderd, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = send(coderd, request(token, method, path, &body)).await;
    let answer = answer.expect("an answer");
    let json = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
    (answer.status().as_u16(), json)
}

async fn call(coderd: &FakeCoderd, method: &str, path: &str, body: Value) -> (u16, Value) {
    call_as(coderd, OWNER, method, path, body).await
}

async fn get(coderd: &FakeCoderd, path: &str) -> (u16, Value) {
    call(coderd, "GET", path, Value::Null).await
}

/// The status that somebody gets.
async fn status(coderd: &FakeCoderd, token: &str, method: &str, path: &str) -> u16 {
    let body = match method {
        "POST" => json!({"name": "some", "display_name": "Some", "icon": "/x.svg"}),
        _ => Value::Null,
    };
    call_as(coderd, token, method, path, body).await.0
}

/// Makes a key and gives its plaintext.
async fn new_key(coderd: &FakeCoderd, name: &str) -> String {
    let (status, body) = call(coderd, "POST", KEYS, json!({"name": name})).await;
    assert_eq!(status, 201, "{body}");
    body["key"].as_str().expect("a plaintext").to_owned()
}

/// The value of a header as text.
fn header(answer: &Response<Bytes>, name: &str) -> Option<String> {
    let value = answer.headers().get(name)?;
    Some(value.to_str().expect("text").to_owned())
}
