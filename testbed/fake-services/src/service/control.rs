//! A stand-in's own control plane under `/_sim`: state, requests, faults, clients.
//!
//! Needs no token, draws from no budget, is in no log.

use aplomb_apimachinery::query::Query;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{FakeService, Fault};

/// The first part of every path of the control plane.
const ROOT: &str = "/_sim";

type Answer = Result<Value, (StatusCode, String)>;

/// Whether a path belongs to the control plane.
pub(super) fn is_control(path: &str) -> bool {
    let rest = path.strip_prefix(ROOT);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request to the control plane.
pub(super) fn answer<C: FakeService>(core: &mut C, now: Timestamp, request: &Request<Bytes>) -> Response<Bytes> {
    let (status, body) = match perform(core, now, request) {
        Ok(body) => (StatusCode::OK, body),
        Err((status, why)) => (status, json!({"error": why})),
    };
    reply(status, &body)
}

/// A refusal to those who may not use the control plane.
pub(super) fn forbidden() -> Response<Bytes> {
    let why = json!({"error": "the control plane answers on loopback only"});
    reply(StatusCode::FORBIDDEN, &why)
}

fn reply(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn perform<C: FakeService>(core: &mut C, now: Timestamp, request: &Request<Bytes>) -> Answer {
    let path = request.uri().path().trim_end_matches('/');
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    match (request.method(), parts.as_slice()) {
        (&Method::GET, ["state"]) => Ok(core.show(now)),
        (&Method::PUT, ["state"]) => {
            core.put(now, request.body()).map_err(bad)?;
            Ok(core.show(now))
        }
        (&Method::GET, ["requests"]) => {
            let since = number("since", query.first("since").unwrap_or("0"))?;
            let (requests, next) = core.requests(since);
            Ok(json!({"requests": requests, "next": next}))
        }
        (&Method::GET, ["faults"]) => Ok(json!({"faults": core.faults().all()})),
        (&Method::POST, ["faults"]) => add_fault(core, now, request),
        (&Method::DELETE, ["faults"]) => Ok(json!({"removed": core.faults().remove(None)})),
        (&Method::DELETE, ["faults", id]) => {
            let id = number("the id", id)?;
            Ok(json!({"removed": core.faults().remove(Some(id))}))
        }
        (&Method::GET, ["clients"]) => Ok(json!({"clients": core.clients()})),
        (&Method::POST, ["clients"]) => {
            core.add_client(now, request.body()).map_err(bad)?;
            Ok(json!({"clients": core.clients()}))
        }
        (&Method::DELETE, ["clients"]) => Ok(json!({"removed": core.remove_clients(now, None)})),
        (&Method::DELETE, ["clients", name]) => Ok(json!({"removed": core.remove_clients(now, Some(name))})),
        (_, ["state" | "requests" | "faults" | "clients", ..]) => Err((
            StatusCode::METHOD_NOT_ALLOWED,
            "this method is not for this path".to_owned(),
        )),
        _ => Err((StatusCode::NOT_FOUND, "no such path".to_owned())),
    }
}

fn add_fault<C: FakeService>(core: &mut C, now: Timestamp, request: &Request<Bytes>) -> Answer {
    let fault: Fault<C::Action> = read(request.body()).map_err(bad)?;
    match fault.mistake().or_else(|| core.cannot(&fault)) {
        Some(mistake) => Err(bad(mistake)),
        None => Ok(json!({"id": core.faults().add(now, fault)})),
    }
}

/// Reads a body of the control plane.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn number(what: &str, text: &str) -> Result<u64, (StatusCode, String)> {
    text.parse().map_err(|_| bad(format!("{what}: must be a number")))
}

fn bad(why: String) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, why)
}
