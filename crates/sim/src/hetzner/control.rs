//! The simulator's own control plane under `/_sim`: state, requests, faults, noise.
//!
//! Needs no token, draws from no bucket, is in no log.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::core::Core;
use super::fault::Fault;
use super::noise::Noise;
use crate::http::query::Query;

/// The first part of every path of the control plane.
pub(super) const ROOT: &str = "/_sim";

type Answer = Result<Value, (StatusCode, String)>;

/// Answers a request to the control plane.
pub(super) fn answer(core: &mut Core, now: Timestamp, request: &Request<Bytes>) -> Response<Bytes> {
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

fn perform(core: &mut Core, now: Timestamp, request: &Request<Bytes>) -> Answer {
    let path = request.uri().path().trim_end_matches('/');
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    match (request.method(), parts.as_slice()) {
        (&Method::GET, ["state"]) => Ok(json!(core.state(now))),
        (&Method::PUT, ["state"]) => {
            let change = read(request)?;
            core.change(now, change).map_err(bad)?;
            Ok(json!(core.state(now)))
        }
        (&Method::GET, ["requests"]) => {
            let since = query.first("since").unwrap_or("0").parse();
            let since = since.map_err(|_| bad("since: must be a number".to_owned()))?;
            Ok(json!({"requests": core.log.since(since), "next": core.log.next()}))
        }
        (&Method::GET, ["faults"]) => Ok(json!({"faults": core.faults.all()})),
        (&Method::POST, ["faults"]) => add_fault(core, request),
        (&Method::DELETE, ["faults"]) => Ok(json!({"removed": core.faults.remove(None)})),
        (&Method::DELETE, ["faults", id]) => {
            let id = id
                .parse()
                .map_err(|_| bad("the id is a number".to_owned()))?;
            Ok(json!({"removed": core.faults.remove(Some(id))}))
        }
        (&Method::GET, ["clients"]) => Ok(json!({"clients": core.noise.all()})),
        (&Method::POST, ["clients"]) => add_client(core, now, request),
        (&Method::DELETE, ["clients"]) => Ok(json!({"removed": core.noise.remove(None)})),
        (&Method::DELETE, ["clients", name]) => {
            Ok(json!({"removed": core.noise.remove(Some(name))}))
        }
        (_, ["state" | "requests" | "faults" | "clients", ..]) => Err((
            StatusCode::METHOD_NOT_ALLOWED,
            "this method is not for this path".to_owned(),
        )),
        _ => Err((StatusCode::NOT_FOUND, "no such path".to_owned())),
    }
}

fn add_fault(core: &mut Core, request: &Request<Bytes>) -> Answer {
    let fault: Fault = read(request)?;
    if let Some(mistake) = fault.mistake() {
        return Err(bad(mistake));
    }
    Ok(json!({"id": core.faults.add(fault)}))
}

fn add_client(core: &mut Core, now: Timestamp, request: &Request<Bytes>) -> Answer {
    let noise: Noise = read(request)?;
    core.check_noise(&noise).map_err(bad)?;
    core.add_noise(now, noise);
    Ok(json!({"clients": core.noise.all()}))
}

fn read<T: DeserializeOwned>(request: &Request<Bytes>) -> Result<T, (StatusCode, String)> {
    serde_json::from_slice(request.body()).map_err(|error| bad(error.to_string()))
}

fn bad(why: String) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, why)
}
