//! Errors of server calls by class, with secrets removed before the text is stored.

use std::fmt;

use aplomb_http_client::ApiToken;
use http::{HeaderMap, StatusCode};

use super::ask::CoderEndpoint;
use super::model::CoderErrorBody;

/// What a failed call means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallErrorClass {
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
pub(crate) struct CallError {
    pub(crate) class: CallErrorClass,
    /// HTTP status, if there was a response.
    pub(crate) status: Option<u16>,
    /// The call as metrics and messages name it, for example `create key`.
    pub(crate) endpoint: &'static str,
    pub(crate) message: String,
    /// Response headers. They carry the rate limit, also on a refused call.
    pub(crate) headers: HeaderMap,
}

impl CallErrorClass {
    /// The class of a failure status. `bypass`: whether the header was sent.
    pub(crate) fn from_status(status: u16, bypass: bool) -> Self {
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

/// Maximum length of a message.
const MAX_LENGTH: usize = 300;
/// This many letters and digits in a row may be a key or half of a token. An ID has dashes in
/// between.
const MIN_SECRET_RUN: usize = 20;
const REDACTED: &str = "[redacted]";

/// Removes any part of the token and anything that looks like a key, joins lines, and cuts the
/// text. The cut is last: half of a secret would not be recognized.
pub(super) fn redact(token: &ApiToken, text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = redact_keys(&token.redact(&text));
    let text = text.trim();
    match text.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

fn redact_keys(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        clean.push_str(if run < MIN_SECRET_RUN { &rest[..run] } else { REDACTED });
        let next = rest[run..].chars().next().map_or(0, char::len_utf8);
        clean.push_str(&rest[run..run + next]);
        rest = &rest[run + next..];
    }
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "jEheVytlAo-FlF8MqUQ7jAo2hOXASztX";

    fn redacted(text: &str) -> String {
        redact(&ApiToken::new(TOKEN).expect("a token"), text)
    }

    #[test]
    fn a_reason_stays_as_it_is() {
        for text in [
            "Organization 6f1b9c1e-0c5e-4b8e-9d1a-0123456789ab not found",
            "You have exceeded the rate limit of 512 requests per 1m0s",
            "name: must be at most 64 characters",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn a_key_is_taken_out_wherever_it_stands() {
        let key = "a1B2".repeat(11);
        let text = format!("key={key} \u{e4}{key}\u{e4}({key})");
        let clean = "key=[redacted] \u{e4}[redacted]\u{e4}([redacted])";
        assert_eq!(redacted(&text), clean);
    }

    #[test]
    fn lines_are_made_one() {
        assert_eq!(redacted("a\r\nb\u{1b}[31m\0"), "a  b [31m");
    }

    proptest! {
        #[test]
        fn it_is_never_long_and_a_secret_never_survives(
            before in "\\PC{0,400}", after in "\\PC{0,50}", key in "[a-zA-Z0-9]{43}",
        ) {
            let clean = redacted(&format!("{before}{key}{after}{TOKEN}"));
            prop_assert!(clean.chars().count() <= MAX_LENGTH);
            for secret in [key.as_str(), TOKEN] {
                for at in 0..=secret.len() - MIN_SECRET_RUN {
                    prop_assert!(!clean.contains(&secret[at..at + MIN_SECRET_RUN]), "{}", clean);
                }
            }
        }
    }
}
