//! Answers the layer gives in the server's place, in the server's words.

use aplomb_apimachinery::status::{ApiError, GroupResource};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::BoxError;

use super::target::Target;

/// The body of every response that has passed the layer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// A body that is there in full.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An error as the server would send it.
pub(super) fn error(error: &ApiError) -> Response<Body> {
    let mut response = if error.plain_text {
        text_response(error)
    } else {
        json_response(error.code, &error.to_status())
    };
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A JSON answer.
pub(super) fn json_response(code: u16, value: &Value) -> Response<Body> {
    with_type(code, "application/json", value.to_string())
}

fn text_response(error: &ApiError) -> Response<Body> {
    with_type(error.code, PLAIN_TEXT, format!("{}\n", error.message))
}

fn with_type(code: u16, kind: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// 409 for an object that moved on.
pub(super) fn conflict(target: &Target) -> ApiError {
    let gr = GroupResource::new(&target.group, &target.resource);
    ApiError::modified(&gr, target.name.as_deref().unwrap_or_default())
}

/// 404 for an object that is not there.
pub(super) fn not_found(target: &Target) -> ApiError {
    let gr = GroupResource::new(&target.group, &target.resource);
    ApiError::not_found(&gr, target.name.as_deref().unwrap_or_default())
}

/// 429 of the overload filters.
pub(super) fn too_many_text(retry_after: u32) -> ApiError {
    let mut error = ApiError::plain(429, "Too many requests, please try again later.");
    error.retry_after = Some(retry_after);
    error
}

/// 429 of a watch cache that is not ready.
pub(super) fn initializing(retry_after: u32) -> ApiError {
    ApiError::too_many_requests("storage is (re)initializing", retry_after)
}

/// 500 without a reason, as errors of the storage arrive.
pub(super) fn internal() -> ApiError {
    ApiError::new(500, "", "etcdserver: leader changed")
}

/// 503.
pub(super) fn unavailable() -> ApiError {
    ApiError::new(503, "ServiceUnavailable", "apiserver is shutting down")
}

/// 504 of the time-out filter, which does not stop the handler. It writes the Status itself, with
/// no kind and no version, and leaves it to the connection to guess the content type.
pub(super) fn timeout() -> Response<Body> {
    let status = json!({
        "metadata": {},
        "status": "Failure",
        "message": "Timeout: request did not complete within the allotted timeout",
        "reason": "Timeout",
        "details": {},
        "code": 504,
    });
    with_type(504, PLAIN_TEXT, format!("{status}\n"))
}

/// 504 for a version the server has not seen yet.
pub(super) fn too_large_version(asked: u64, current: u64) -> ApiError {
    let why = format!("Too large resource version: {asked}, current: {current}");
    let cause = json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
    ApiError::timeout(&why, 1).with_detail("causes", cause)
}

/// 401.
pub(super) fn unauthorized() -> ApiError {
    ApiError::new(401, "Unauthorized", "Unauthorized")
}

/// 410 of a list at a version that is gone.
pub(super) fn gone() -> ApiError {
    ApiError::expired("The resourceVersion for the provided list is too old.")
}

/// A watch that answers 200 and then only says that its version is too old.
pub(super) fn expired_watch() -> Response<Body> {
    let status = ApiError::expired("too old resource version: 1 (2)").to_status();
    json_response(200, &json!({ "type": "ERROR", "object": status }))
}
