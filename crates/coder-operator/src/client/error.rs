//! Errors of server calls by class, with secrets removed before the text is stored.

use std::fmt;

use http::{HeaderMap, StatusCode};

use super::endpoint::CoderEndpoint;
use super::model::CoderErrorBody;
use super::redact::redact;
use aplomb_http_client::ApiToken;

/// What a failed call means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallErrorClass {
    /// 400, 422 and any other 4xx: the request is invalid until the spec changes.
    Invalid,
    /// 401: the token was rejected.
    Token,
    /// 403: the token lacks permission, or the server has no license for it.
    Forbidden,
    /// 404: it does not exist, or this token cannot see it.
    Missing,
    /// 409: the name exists already.
    Exists,
    /// 412 or 428, only in response to the bypass header.
    BypassRefused,
    /// 429: the rate limit.
    Limited,
    /// 5xx, 408, and redirects, which are not followed with a token.
    Server,
    /// No response, or one that cannot be decoded: the call may have taken effect.
    NoAnswer,
}

/// A failed call. Contains no part of a token or key.
#[derive(Clone)]
pub struct CallError {
    /// The class.
    pub class: CallErrorClass,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The call as metrics and messages name it, for example `create key`.
    pub endpoint: &'static str,
    /// Message for people.
    pub message: String,
    /// Response headers. They carry the rate limit, also on a refused call.
    pub headers: HeaderMap,
}

impl CallErrorClass {
    /// The class of a failure status. `bypass`: whether the header was sent.
    #[must_use]
    pub fn from_status(status: u16, bypass: bool) -> Self {
        match status {
            401 => Self::Token,
            403 => Self::Forbidden,
            404 => Self::Missing,
            409 => Self::Exists,
            412 | 428 if bypass => Self::BypassRefused,
            429 => Self::Limited,
            // A proxy gave up on the server.
            408 => Self::Server,
            400..=499 => Self::Invalid,
            _ => Self::Server,
        }
    }
}

impl CallError {
    /// Error for a call without a response.
    pub(crate) fn no_answer(token: &ApiToken, endpoint: CoderEndpoint, cause: &dyn fmt::Display) -> Self {
        Self::new_unanswered(endpoint, redact(token, &cause.to_string()))
    }

    /// Error for a call without a response before its deadline.
    pub(crate) fn timed_out(endpoint: CoderEndpoint) -> Self {
        Self::new_unanswered(endpoint, "the server did not respond before the deadline".to_owned())
    }

    /// The call was not sent: another replica may be the leader.
    pub(crate) fn lease_lost(endpoint: CoderEndpoint) -> Self {
        Self::new_unanswered(endpoint, "this replica does not hold the lease".to_owned())
    }

    fn new_unanswered(endpoint: CoderEndpoint, message: String) -> Self {
        Self {
            class: CallErrorClass::NoAnswer,
            status: None,
            endpoint: endpoint.phrase(),
            message,
            headers: HeaderMap::new(),
        }
    }

    /// The request cannot be sent at all.
    pub(super) fn invalid_request(endpoint: CoderEndpoint) -> Self {
        Self {
            class: CallErrorClass::Invalid,
            status: None,
            endpoint: endpoint.phrase(),
            message: "the name is empty or consists of dots, and cannot be part of a path".to_owned(),
            headers: HeaderMap::new(),
        }
    }

    /// A successful response about a deleted object.
    pub(crate) fn deleted(endpoint: CoderEndpoint) -> Self {
        Self {
            class: CallErrorClass::Missing,
            message: "it was deleted on the server".to_owned(),
            ..Self::invalid_request(endpoint)
        }
    }

    /// A successful response that cannot be decoded. The body is left out: it may contain a key.
    pub(super) fn unreadable(endpoint: CoderEndpoint, status: StatusCode, headers: HeaderMap) -> Self {
        Self {
            class: CallErrorClass::NoAnswer,
            status: Some(status.as_u16()),
            endpoint: endpoint.phrase(),
            message: format!("responded {} with a body that cannot be decoded", status.as_u16()),
            headers,
        }
    }

    /// A failure response. The status decides the class; a body in coderd's format becomes the
    /// message.
    pub(super) fn from_response(
        token: &ApiToken,
        endpoint: CoderEndpoint,
        bypass: bool,
        (status, headers, body): (StatusCode, HeaderMap, &[u8]),
    ) -> Self {
        let said = serde_json::from_slice::<CoderErrorBody>(body).ok();
        let said = said.map(|said| redact(token, &said.message_text()));
        let message = match said.filter(|said| !said.is_empty()) {
            Some(said) => said,
            None if status.is_redirection() => {
                format!("responded {status}; redirects are not followed")
            }
            None => format!("responded {status} without an error message"),
        };
        Self {
            class: CallErrorClass::from_status(status.as_u16(), bypass),
            status: Some(status.as_u16()),
            endpoint: endpoint.phrase(),
            message,
            headers,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.endpoint, self.message)
    }
}

/// Leaves the headers out: a proxy may have put anything there.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError")
            .field("class", &self.class)
            .field("endpoint", &self.endpoint)
            .field("status", &self.status)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for CallError {}
