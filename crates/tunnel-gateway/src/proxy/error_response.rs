//! Error responses of the gateway: a status, a stable reason and a short page. Pages are public and do not
//! reveal where an origin is; details go to the log.

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};

use aplomb_api::tunnel::headers::{REASON, REVISION};
use aplomb_tunnel_protocol::StreamRefusal;

use super::request_record::RequestRecord;
use super::response_body::ResponseBody;
use crate::origin::DialError;
use crate::reason;

/// Why the gateway itself responds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ErrorResponse {
    pub(super) status: u16,
    pub(super) reason: &'static str,
    /// Detail for the log.
    pub(super) detail: String,
}

impl ErrorResponse {
    pub(super) fn new(status: u16, reason: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, reason, detail }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(400, reason::BAD_REQUEST, detail)
    }
}

impl From<DialError> for ErrorResponse {
    fn from(error: DialError) -> Self {
        let (status, reason) = match &error {
            DialError::Offline => (503, reason::CONNECTOR_OFFLINE),
            DialError::Unreachable(_) => (502, reason::ORIGIN_UNREACHABLE),
            DialError::Forbidden(_) => (403, reason::UNAUTHORISED),
            DialError::TimedOut => (504, reason::ORIGIN_TIMEOUT),
            DialError::Refused(refusal, _) => match refusal {
                StreamRefusal::NotExposed => (403, reason::ORIGIN_NOT_EXPOSED),
                StreamRefusal::OriginUnreachable => (502, reason::ORIGIN_UNREACHABLE),
                StreamRefusal::OtherConnector => (403, reason::UNAUTHORISED),
                StreamRefusal::OtherSession => (409, reason::OTHER_SESSION),
                StreamRefusal::Malformed => (502, reason::ORIGIN_BROKEN),
                StreamRefusal::TooMany => (503, reason::TOO_MANY),
            },
        };
        Self::new(status, reason, error.to_string())
    }
}

/// The text on the public page.
fn public_message(reason: &str) -> &'static str {
    match reason {
        reason::UNKNOWN_HOST => "This hostname does not belong to a tunnel.",
        reason::NO_ROUTE => "No rule of the tunnel matches this request.",
        reason::CONNECTOR_OFFLINE => "The tunnel exists, but its connector is offline.",
        reason::CONNECTOR_NOT_FOUND => "The tunnel refers to a connector that does not exist.",
        reason::ORIGIN_UNREACHABLE => "The service behind the tunnel does not accept connections.",
        reason::ORIGIN_BROKEN => "The service behind the tunnel closed the connection or did not respond with HTTP.",
        reason::ORIGIN_TIMEOUT => "The service behind the tunnel did not respond in time.",
        reason::ORIGIN_NOT_EXPOSED => {
            "The agent behind the tunnel does not expose this service. See the status of the HTTPProxy."
        }
        reason::UNAUTHORISED => "The tunnel is not allowed to reach this service.",
        reason::TOO_MANY => "The tunnel has too many requests in flight. Try again later.",
        reason::OTHER_GENERATION => "This gateway serves another generation of the tunnel.",
        reason::OTHER_SESSION => "The connector has started a new session.",
        reason::CLIENT_TIMEOUT => "The request body did not arrive in time.",
        _ => "The request is malformed.",
    }
}

/// The error page of a failure.
pub(super) fn failure_page(
    head: &ErrorFormat,
    failure: &ErrorResponse,
    mut record: RequestRecord,
) -> Response<ResponseBody> {
    let ErrorResponse { status, reason, .. } = failure;
    record.record_response(*status, Some(reason));
    let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY);
    let line = public_message(reason);
    let id = record.request_id();
    let (kind, text) = if head.html {
        let text = format!(
            "<!doctype html><meta charset=utf-8><title>{status}</title>\
             <h1>{status}</h1><p>{line}<p><small>{reason} · {id}</small>\n"
        );
        ("text/html; charset=utf-8", text)
    } else {
        let text = format!("{line}\n{reason} {id}\n");
        ("text/plain; charset=utf-8", text)
    };
    let mut response = full_response(head, status, kind, text, record);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let reason = HeaderValue::from_static(reason);
    headers.insert(HeaderName::from_static(REASON), reason);
    response
}

/// A complete response of the gateway.
pub(super) fn full_response(
    head: &ErrorFormat,
    status: StatusCode,
    kind: &'static str,
    text: String,
    record: RequestRecord,
) -> Response<ResponseBody> {
    let long = text.len();
    let text = if head.head { String::new() } else { text };
    let mut response = Response::new(ResponseBody::from_text(text, record));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(long));
    response
}

/// The requested format of an error response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorFormat {
    html: bool,
    head: bool,
}

impl ErrorFormat {
    pub(super) fn from_request(head: &Parts) -> Self {
        let accept = head.headers.get(ACCEPT).and_then(|it| it.to_str().ok());
        Self {
            html: accept.is_some_and(|it| it.contains("text/html")),
            head: head.method == Method::HEAD,
        }
    }
}

/// Removes headers that only the gateway may set, then adds the revision that served the request, if enabled.
pub(super) fn set_gateway_headers(headers: &mut HeaderMap, revision: Option<&str>, own: bool, told: bool) {
    if !own || !told {
        headers.remove(REASON);
    }
    headers.remove(REVISION);
    if told && let Some(value) = revision.and_then(|it| HeaderValue::from_str(it).ok()) {
        headers.insert(HeaderName::from_static(REVISION), value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_its_own_message() {
        let words = reason::ALL.into_iter().filter(|it| *it != reason::CLIENT_GONE);
        let sentences: BTreeSet<_> = words.map(public_message).collect();
        assert_eq!(sentences.len(), reason::ALL.len() - 1);
    }

    #[test]
    fn an_origin_cannot_set_gateway_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(REASON, HeaderValue::from_static("ConnectorOffline"));
        headers.insert(REVISION, HeaderValue::from_static("forged"));
        set_gateway_headers(&mut headers, Some("7"), false, true);
        assert_eq!(headers.get(REASON), None);
        assert_eq!(headers[REVISION], "7");
        set_gateway_headers(&mut headers, Some("7"), true, false);
        assert!(headers.is_empty());
    }
}
