//! What a call that did not succeed has told, by class, with everything secret taken out before it is
//! kept.

use std::fmt;

use http::{HeaderMap, StatusCode};

use super::redact::redact;
use super::endpoint::CoderEndpoint;
use super::model::CoderErrorBody;
use aplomb_http_client::ApiToken;

/// What a refusal means for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallErrorClass {
    /// 400, 422 and any other 4xx: the request is wrong and stays so until the spec changes.
    Invalid,
    /// 401: the token is not taken.
    Token,
    /// 403: the token may not do this, or the server has no licence for it.
    Forbidden,
    /// 404: it is not there, or not to be seen by this token.
    Missing,
    /// 409: there is one of this name.
    Exists,
    /// 412 or 428, in answer to the bypass header and to nothing else.
    BypassRefused,
    /// 429: the rate limit.
    Limited,
    /// 5xx, 408, and a redirect, which nobody may follow with a token.
    Server,
    /// No answer came, or one that cannot be read: it may have happened all the same.
    NoAnswer,
}

/// A call that did not succeed. Holds no part of a token or key.
#[derive(Clone)]
pub struct CallError {
    /// What it means.
    pub class: CallErrorClass,
    /// The status of the answer, if one came.
    pub status: Option<u16>,
    /// The call, as metrics and messages name it: `create key`.
    pub endpoint: &'static str,
    /// For people.
    pub message: String,
    /// The headers of the answer: they speak of the rate limit, on a refusal too.
    pub headers: HeaderMap,
}

impl CallErrorClass {
    /// What a status that is no success means. `bypass`: whether the header was sent.
    #[must_use]
    pub fn from_status(status: u16, bypass: bool) -> Self {
        match status {
            401 => Self::Token,
            403 => Self::Forbidden,
            404 => Self::Missing,
            409 => Self::Exists,
            412 | 428 if bypass => Self::BypassRefused,
            429 => Self::Limited,
            // A gateway has given up on the server.
            408 => Self::Server,
            400..=499 => Self::Invalid,
            _ => Self::Server,
        }
    }
}

impl CallError {
    /// No answer came.
    pub(crate) fn no_answer(
        token: &ApiToken,
        endpoint: CoderEndpoint,
        cause: &dyn fmt::Display,
    ) -> Self {
        Self::new_unanswered(endpoint, redact(token, &cause.to_string()))
    }

    /// No answer came within the time there was.
    pub(crate) fn timed_out(endpoint: CoderEndpoint) -> Self {
        Self::new_unanswered(endpoint, "the server did not answer in time".to_owned())
    }

    /// It was not sent: another replica may be acting.
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

    /// It cannot be sent at all.
    pub(super) fn invalid_request(endpoint: CoderEndpoint) -> Self {
        Self {
            class: CallErrorClass::Invalid,
            status: None,
            endpoint: endpoint.phrase(),
            message: "the name is empty or made of dots, and cannot be part of a path".to_owned(),
            headers: HeaderMap::new(),
        }
    }

    /// An answer of success about something that was deleted.
    pub(crate) fn deleted(endpoint: CoderEndpoint) -> Self {
        Self {
            class: CallErrorClass::Missing,
            message: "it was deleted at the server".to_owned(),
            ..Self::invalid_request(endpoint)
        }
    }

    /// An answer of success that cannot be read. What is in it stays there: it may be a key.
    pub(super) fn unreadable(
        endpoint: CoderEndpoint,
        status: StatusCode,
        headers: HeaderMap,
    ) -> Self {
        Self {
            class: CallErrorClass::NoAnswer,
            status: Some(status.as_u16()),
            endpoint: endpoint.phrase(),
            message: format!(
                "answered {} with a body that cannot be read",
                status.as_u16()
            ),
            headers,
        }
    }

    /// An answer of failure. Its status counts; its words are for people, where it speaks the server's
    /// language.
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
                format!("answered {status} to somewhere else, which is not followed")
            }
            None => format!("answered {status} without a reason"),
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

/// Without the headers: what a gateway puts there is nobody's to vouch for.
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
