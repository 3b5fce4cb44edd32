//! Errors as the API server says them: a `metav1.Status`, or one of the few plain-text answers.
//!
//! Constructors are named after the reason; wording is the server's, because clients match on it.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::field::{FieldError, go_quote};

/// A group and a plural resource name (or a kind, where the server names kinds).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name (or kind).
    pub resource: String,
}

impl GroupResource {
    /// Names a resource of a group.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// What the server answers instead of the object that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason; empty where the server sends none.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// `details`, already in wire form.
    pub details: Option<Value>,
    /// `metadata.continue` of the Status (only an expired list token carries one).
    pub continue_token: Option<String>,
    /// Seconds for the `Retry-After` header.
    pub retry_after: Option<u32>,
    /// Sent as `text/plain` with only the message, as some of the server's filters do.
    pub plain_text: bool,
    /// `Warning: 299` texts: what was noticed before the request was refused.
    pub warnings: Vec<String>,
}

impl ApiError {
    /// A Status with a code, a reason and a message.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            retry_after: None,
            plain_text: false,
            warnings: Vec::new(),
        }
    }

    /// Adds what was noticed before; it comes first.
    #[must_use]
    pub fn after_warnings(mut self, noticed: Vec<String>) -> Self {
        self.warnings.splice(0..0, noticed);
        self
    }

    /// An answer that is not a Status.
    pub fn plain(code: u16, message: impl Into<String>) -> Self {
        Self {
            plain_text: true,
            ..Self::new(code, "", message)
        }
    }

    fn about(mut self, gr: &GroupResource, name: &str) -> Self {
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".into(), name.into());
        }
        if !gr.group.is_empty() {
            details.insert("group".into(), gr.group.as_str().into());
        }
        if !gr.resource.is_empty() {
            details.insert("kind".into(), gr.resource.as_str().into());
        }
        self.details = Some(Value::Object(details));
        self
    }

    /// Adds one member to `details`.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: Value) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        if let Value::Object(map) = details {
            map.insert(key.to_owned(), value);
        }
        self
    }

    /// Whether `details` names a cause of this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        let causes = self.details.as_ref().and_then(|it| it.get("causes"));
        let mut causes = causes.and_then(Value::as_array).into_iter().flatten();
        causes.any(|cause| cause["reason"] == reason)
    }

    /// 404 NotFound.
    #[must_use]
    pub fn not_found(gr: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{gr} {} not found", go_quote(name))).about(gr, name)
    }

    /// 409 AlreadyExists.
    #[must_use]
    pub fn already_exists(gr: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{gr} {} already exists", go_quote(name))).about(gr, name)
    }

    /// 409 Conflict with the server's prefix.
    #[must_use]
    pub fn conflict(gr: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {gr} {}: {why}", go_quote(name));
        Self::new(409, "Conflict", message).about(gr, name)
    }

    /// 409 Conflict because the object moved on.
    #[must_use]
    pub fn modified(gr: &GroupResource, name: &str) -> Self {
        Self::conflict(
            gr,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 403 Forbidden.
    #[must_use]
    pub fn forbidden(gr: &GroupResource, name: &str, why: &str) -> Self {
        let message = if gr.group.is_empty() && gr.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{gr} is forbidden: {why}")
        } else {
            format!("{gr} {} is forbidden: {why}", go_quote(name))
        };
        Self::new(403, "Forbidden", message).about(gr, name)
    }

    /// 422 Invalid with one cause per field. `kind` is a group and a *kind*.
    #[must_use]
    pub fn invalid(kind: &GroupResource, name: &str, errors: &[FieldError]) -> Self {
        let mut unique: Vec<String> = Vec::new();
        for error in errors {
            let message = error.message();
            if !unique.contains(&message) {
                unique.push(message);
            }
        }
        let head = format!("{kind} {} is invalid", go_quote(name));
        let message = match unique.as_slice() {
            [] => head,
            [only] => format!("{head}: {only}"),
            many => format!("{head}: [{}]", many.join(", ")),
        };
        let error = Self::new(422, "Invalid", message).about(kind, name);
        if errors.is_empty() {
            return error;
        }
        error.with_detail("causes", errors.iter().map(FieldError::cause).collect())
    }

    /// 400 BadRequest.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 405 MethodNotAllowed.
    #[must_use]
    pub fn method_not_supported(gr: &GroupResource, action: &str) -> Self {
        let message = format!(
            "{action} is not supported on resources of kind {}",
            go_quote(&gr.to_string())
        );
        Self::new(405, "MethodNotAllowed", message).about(gr, "")
    }

    /// 500 InternalError.
    #[must_use]
    pub fn internal(why: &str) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"))
            .with_detail("causes", json!([{ "message": why }]))
    }

    /// 410 Expired.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 504 Timeout.
    #[must_use]
    pub fn timeout(message: &str, retry_after: u32) -> Self {
        let mut error = Self::new(504, "Timeout", format!("Timeout: {message}"))
            .with_detail("retryAfterSeconds", retry_after.into());
        error.retry_after = Some(retry_after);
        error
    }

    /// 429 TooManyRequests as a Status.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message).with_detail("retryAfterSeconds", retry_after.into());
        error.retry_after = Some(retry_after);
        error
    }

    /// The Status object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        let metadata = match &self.continue_token {
            Some(token) => json!({ "continue": token }),
            None => json!({}),
        };
        status.insert("metadata".into(), metadata);
        status.insert("status".into(), "Failure".into());
        status.insert("message".into(), self.message.as_str().into());
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.into());
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.clone());
        }
        status.insert("code".into(), self.code.into());
        Value::Object(status)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for ApiError {}
