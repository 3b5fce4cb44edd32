//! Errors of provider calls, with secrets removed before the text is stored, and what they mean for a decision.

use std::fmt;

use aplomb::ErrorClass;
use aplomb_http_client::ApiToken;
use http::{HeaderMap, StatusCode};

use super::model::HcloudErrorBody;
use crate::egress::ProviderTrouble;

/// Maximum length of a stored message.
const MAX_MESSAGE: usize = 300;

/// No response: network error, timeout, or a lost reply.
pub(crate) const NO_ANSWER: &str = "no_answer";
/// A successful response that cannot be decoded.
const UNREADABLE: &str = "unreadable";

/// A failed call. Contains no part of the token.
#[derive(Clone)]
pub struct HcloudError {
    /// Error code to decide on: the provider's own if it sent one, otherwise a code derived from the status, or
    /// `no_answer` or `unreadable`.
    pub code: String,
    pub status: Option<u16>,
    /// Message for people.
    pub message: String,
    /// Response headers. They carry the rate limit, also on a refused call.
    pub headers: HeaderMap,
}

impl HcloudError {
    pub(super) fn no_answer(token: &ApiToken, cause: &dyn fmt::Display) -> Self {
        Self {
            code: NO_ANSWER.to_owned(),
            status: None,
            message: redact(token, &cause.to_string()),
            headers: HeaderMap::new(),
        }
    }

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

    /// Error for a failure response. The provider's code takes precedence; the status is used only for a response
    /// without one, for example from a proxy.
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
        f.debug_struct("HcloudError")
            .field("code", &self.code)
            .field("status", &self.status)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for HcloudError {}

/// The floating IP is already assigned to that server.
const ALREADY_ASSIGNED: &str = "floating_ip_assigned";

/// Why a call failed.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The provider returned an error or no response.
    Provider(HcloudError),
    /// Not sent: no slot before the deadline, no lease, or canceled.
    Runtime(aplomb::Error),
}

impl CallFailure {
    /// Whether the floating IP is assigned to the requested server already.
    pub(super) fn is_already_assigned(&self) -> bool {
        matches!(self, Self::Provider(error) if error.code == ALREADY_ASSIGNED)
    }

    /// Whether the server, and not the floating IP, is missing: both have the same code.
    fn is_server_missing(&self) -> bool {
        let server = |error: &HcloudError| error.message.starts_with("server ");
        matches!(self, Self::Provider(error) if error.code == "not_found" && server(error))
    }

    /// Its meaning for an Assign.
    pub(super) fn into_assign_trouble(self) -> ProviderTrouble {
        if self.is_server_missing() {
            return ProviderTrouble::Refused("server_not_found".to_owned());
        }
        self.into()
    }

    /// Whether a failed write may have been applied.
    pub(super) fn is_ambiguous(&self) -> bool {
        match self {
            Self::Provider(error) => {
                matches!(from_hcloud_error(error), ProviderTrouble::Unreachable(_))
            }
            Self::Runtime(error) => error.class() == ErrorClass::Unavailable,
        }
    }
}

impl From<CallFailure> for ProviderTrouble {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Provider(error) => from_hcloud_error(&error),
            CallFailure::Runtime(error) if error.class() == ErrorClass::Throttled => Self::Throttled,
            CallFailure::Runtime(error) => Self::Unreachable(error.to_string()),
        }
    }
}

/// Decided by the code. The status is used only for an unknown code.
fn from_hcloud_error(error: &HcloudError) -> ProviderTrouble {
    match error.code.as_str() {
        "rate_limit_exceeded" => ProviderTrouble::Throttled,
        "locked" | "conflict" => ProviderTrouble::Locked,
        "unauthorized" | "token_readonly" | "forbidden" => ProviderTrouble::Unauthorized,
        "not_found" => ProviderTrouble::NotFound,
        "server_error" | "bad_gateway" | "timeout" | "maintenance" | "unavailable" | NO_ANSWER | UNREADABLE => {
            ProviderTrouble::Unreachable(error.to_string())
        }
        // A proxy's response does not describe the requested object.
        other if other.starts_with("http_") => ProviderTrouble::Unreachable(error.to_string()),
        _ if error.status >= Some(500) => ProviderTrouble::Unreachable(error.to_string()),
        other => ProviderTrouble::Refused(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider_error(code: &str, status: Option<u16>) -> ProviderTrouble {
        let error = HcloudError {
            code: code.to_owned(),
            status,
            message: "so".to_owned(),
            headers: HeaderMap::new(),
        };
        CallFailure::Provider(error).into()
    }

    #[test]
    fn each_code_is_the_trouble_it_stands_for() {
        let down = |code: &str| ProviderTrouble::Unreachable(format!("{code}: so"));
        for (code, status, trouble) in [
            ("rate_limit_exceeded", Some(429), ProviderTrouble::Throttled),
            ("locked", Some(423), ProviderTrouble::Locked),
            ("conflict", Some(409), ProviderTrouble::Locked),
            (
                "resource_locked",
                Some(423),
                ProviderTrouble::Refused("resource_locked".to_owned()),
            ),
            ("unauthorized", Some(401), ProviderTrouble::Unauthorized),
            ("token_readonly", Some(401), ProviderTrouble::Unauthorized),
            ("forbidden", Some(403), ProviderTrouble::Unauthorized),
            ("not_found", Some(404), ProviderTrouble::NotFound),
            ("maintenance", Some(403), down("maintenance")),
            ("server_error", Some(500), down("server_error")),
            ("no_answer", None, down("no_answer")),
            ("http_302", Some(302), down("http_302")),
            ("something_new", Some(503), down("something_new")),
            ("protected", Some(423), ProviderTrouble::Refused("protected".to_owned())),
            (
                "uniqueness_error",
                Some(409),
                ProviderTrouble::Refused("uniqueness_error".to_owned()),
            ),
            (
                "invalid_input",
                Some(422),
                ProviderTrouble::Refused("invalid_input".to_owned()),
            ),
        ] {
            assert_eq!(provider_error(code, status), trouble);
        }
    }
}
