//! Refusals: the codes the service documents, each with the status it comes with.
//!
//! Nothing here decides when one is due.

use http::StatusCode;
use serde_json::{Value, json};

/// A refused request, before it is put into JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// `error.code`.
    pub code: String,
    /// `error.message`.
    pub message: String,
    /// `error.details`, whose shape depends on the code.
    pub details: Value,
}

/// Every documented code with its status. The first of a status is what a fault with only that
/// status answers.
const CODES: [(&str, u16); 27] = [
    ("json_error", 400),
    ("unauthorized", 401),
    ("token_readonly", 401),
    ("maintenance", 403),
    ("forbidden", 403),
    ("resource_limit_exceeded", 403),
    ("not_found", 404),
    ("method_not_allowed", 405),
    ("conflict", 409),
    ("uniqueness_error", 409),
    ("deprecated_api_endpoint", 410),
    ("resource_unavailable", 412),
    ("service_error", 422),
    ("invalid_input", 422),
    ("unsupported_error", 422),
    ("floating_ip_assigned", 422),
    ("must_be_unassigned", 422),
    ("robot_unavailable", 422),
    ("unknown_error", 422),
    ("locked", 423),
    ("protected", 423),
    ("resource_locked", 423),
    ("rate_limit_exceeded", 429),
    ("server_error", 500),
    ("bad_gateway", 502),
    ("unavailable", 503),
    ("timeout", 504),
];

/// The status a code comes with; an unknown code is a server error.
#[must_use]
pub fn status_of(code: &str) -> StatusCode {
    let known = CODES.iter().find(|(known, _)| *known == code);
    known
        .and_then(|(_, status)| StatusCode::from_u16(*status).ok())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The usual code of a status.
#[must_use]
pub fn code_of(status: StatusCode) -> &'static str {
    let known = CODES.iter().find(|(_, known)| *known == status.as_u16());
    known.map_or("unknown_error", |(code, _)| code)
}

impl ApiError {
    /// A refusal with the status that belongs to its code.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            status: status_of(code),
            code: code.to_owned(),
            message: message.into(),
            details: Value::Null,
        }
    }

    /// 404 for a resource.
    #[must_use]
    pub fn not_found(kind: &str, id: u64) -> Self {
        Self::new("not_found", format!("{kind} with ID '{id}' not found"))
    }

    /// 422 that names the field.
    #[must_use]
    pub fn invalid(field: &str, message: &str) -> Self {
        let details = json!({"fields": [{"name": field, "messages": [message]}]});
        Self {
            details,
            ..Self::new("invalid_input", format!("invalid input in field '{field}'"))
        }
    }

    /// The 2026 text of a 429: it names the first half of the token. `None`: no known token.
    #[must_use]
    pub fn rate_limited(limit: u64, token: Option<&str>) -> Self {
        let whose = match token {
            Some(token) => {
                let shown: String = token.chars().take(token.chars().count() / 2).collect();
                format!(" for token {shown}...")
            }
            None => String::new(),
        };
        let message = format!("limit of {limit} requests per hour reached{whose}");
        Self::new("rate_limit_exceeded", message)
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({"error": {"code": self.code, "message": self.message, "details": self.details}})
    }
}
