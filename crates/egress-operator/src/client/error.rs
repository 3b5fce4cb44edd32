//! What a call that did not succeed has told, with everything secret taken out before it is kept.

use std::fmt;

use http::{HeaderMap, StatusCode};

use super::model::HcloudErrorBody;
use aplomb_http_client::ApiToken;

/// How much of a message is kept.
const MAX_MESSAGE: usize = 300;

/// No answer came: the network, a timeout, or a reply that was lost.
pub const NO_ANSWER: &str = "no_answer";
/// An answer of success that cannot be read.
pub const UNREADABLE: &str = "unreadable";

/// A call that did not succeed. Holds no part of the token.
#[derive(Clone)]
pub struct HcloudError {
    /// The word to decide on: the provider's own where it gave one, else one that stands for the
    /// status, or [`NO_ANSWER`] or [`UNREADABLE`].
    pub code: String,
    /// The status of the answer, if one came.
    pub status: Option<u16>,
    /// For people.
    pub message: String,
    /// The headers of the answer: they speak of the rate limit, on a refusal too.
    pub headers: HeaderMap,
}

impl HcloudError {
    /// No answer came.
    pub(super) fn no_answer(token: &ApiToken, cause: &dyn fmt::Display) -> Self {
        Self {
            code: NO_ANSWER.to_owned(),
            status: None,
            message: redact(token, &cause.to_string()),
            headers: HeaderMap::new(),
        }
    }

    /// An answer of success that cannot be read.
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

    /// An answer of failure. Its own code counts; the status only where a gateway answered that does
    /// not speak the provider's language.
    pub(super) fn from_response(
        token: &ApiToken,
        status: StatusCode,
        headers: HeaderMap,
        body: &[u8],
    ) -> Self {
        let said = serde_json::from_slice::<HcloudErrorBody>(body).ok();
        let said = said
            .map(|body| body.error)
            .filter(|said| !said.code.is_empty());
        let (code, message) = match said {
            Some(said) => (redact(token, &said.code), redact(token, &said.message)),
            None => (
                code_for_status(status),
                format!("answered {status} without a reason"),
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

/// Without the headers: what a gateway puts there is nobody's to vouch for.
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
