//! Errors of provider calls, with secrets removed before the text is stored.

use std::fmt;

use http::{HeaderMap, StatusCode};

use super::model::HcloudErrorBody;
use aplomb_http_client::ApiToken;

/// Maximum length of a stored message.
const MAX_MESSAGE: usize = 300;

/// No response: network error, timeout, or a lost reply.
pub const NO_ANSWER: &str = "no_answer";
/// A successful response that cannot be decoded.
pub const UNREADABLE: &str = "unreadable";

/// A failed call. Contains no part of the token.
#[derive(Clone)]
pub struct HcloudError {
    /// Error code to decide on: the provider's own if it sent one, otherwise a code derived from
    /// the status, or [`NO_ANSWER`] or [`UNREADABLE`].
    pub code: String,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Message for people.
    pub message: String,
    /// Response headers. They carry the rate limit, also on a refused call.
    pub headers: HeaderMap,
}

impl HcloudError {
    /// Error for a call without a response.
    pub(super) fn no_answer(token: &ApiToken, cause: &dyn fmt::Display) -> Self {
        Self {
            code: NO_ANSWER.to_owned(),
            status: None,
            message: redact(token, &cause.to_string()),
            headers: HeaderMap::new(),
        }
    }

    /// Error for a successful response that cannot be decoded.
    pub(super) fn unreadable(
        token: &ApiToken,
        status: StatusCode,
        headers: HeaderMap,
        cause: &serde_json::Error,
    ) -> Self {
        Self {
            code: UNREADABLE.to_owned(),
            status: Some(status.as_u16()),
            message: redact(token, &cause.to_string()),
            headers,
        }
    }

    /// Error for a failure response. The provider's code takes precedence; the status is used only
    /// for a response without one, for example from a proxy.
    pub(super) fn from_response(token: &ApiToken, status: StatusCode, headers: HeaderMap, body: &[u8]) -> Self {
        let said = serde_json::from_slice::<HcloudErrorBody>(body).ok();
        let said = said.map(|body| body.error).filter(|said| !said.code.is_empty());
        let (code, message) = match said {
            Some(said) => (redact(token, &said.code), redact(token, &said.message)),
            None => (
                code_for_status(status),
                format!("responded {status} without an error code"),
            ),
        };
        Self {
            code,
            status: Some(status.as_u16()),
            message,
            headers,
        }
    }
}

fn redact(token: &ApiToken, text: &str) -> String {
    let text = token.redact(text);
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

fn code_for_status(status: StatusCode) -> String {
    let code = match status.as_u16() {
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not_found",
        409 => "conflict",
        423 => "locked",
        429 => "rate_limit_exceeded",
        500 => "server_error",
        502 => "bad_gateway",
        503 => "unavailable",
        504 => "timeout",
        other => return format!("http_{other}"),
    };
    code.to_owned()
}

impl fmt::Display for HcloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// Leaves the headers out: a proxy may have put anything there.
impl fmt::Debug for HcloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderError")
            .field("code", &self.code)
            .field("status", &self.status)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for HcloudError {}
