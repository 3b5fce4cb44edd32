//! Refusals as coderd words them. Nothing here decides when one is due.

use http::StatusCode;
use serde_json::{Value, json};

use crate::service::draft::{Body, ResponseDraft};

/// A refused request, before it is put into JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    message: String,
    detail: Option<String>,
    /// Fields and what is wrong with them.
    fields: Vec<(&'static str, String)>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            detail: None,
            fields: Vec::new(),
        }
    }

    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// 400 for what a field says.
    pub(super) fn field(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            fields: vec![(field, message.clone())],
            ..Self::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// 400 for fields that are empty.
    pub(super) fn required(fields: &[&'static str]) -> Self {
        let detail = "Validation failed for tag \"required\" with value: \"\"";
        let fields = fields.iter().map(|field| (*field, detail.to_owned()));
        Self {
            fields: fields.collect(),
            ..Self::new(StatusCode::BAD_REQUEST, "Validation failed.")
        }
    }

    pub(super) fn bad_json(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Request body must be valid JSON.").detail(detail)
    }

    pub(super) fn signed_out(detail: &str) -> Self {
        let message = "You are signed out or your session has expired. Please sign in again to continue.";
        Self::new(StatusCode::UNAUTHORIZED, message).detail(detail)
    }

    /// 404, deliberately vague.
    pub(super) fn missing() -> Self {
        let message = "Resource not found or you do not have access to this resource";
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Route not found.")
    }

    pub(super) fn unlicensed(feature: &str) -> Self {
        let message = format!("{feature} is a Premium feature. Contact sales!");
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// What the server makes of a right that is missing behind its checks.
    pub(super) fn internal(detail: &str) -> Self {
        let message = "An internal server error occurred.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).detail(detail)
    }

    pub(super) fn limited(limit: i64) -> Self {
        let message = format!("You've been rate limited for sending more than {limit} requests in 1m0s.");
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    /// What the server says with a status, when a fault asks for it.
    pub(super) fn by_order(status: StatusCode, limit: i64) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::signed_out("API key is invalid."),
            StatusCode::NOT_FOUND => Self::missing(),
            StatusCode::TOO_MANY_REQUESTS => Self::limited(limit),
            status => {
                let reason = status.canonical_reason().unwrap_or("Refused");
                Self::new(status, format!("{reason} by order."))
            }
        }
    }

    fn body(&self) -> Value {
        let mut body = json!({"message": self.message});
        if let Some(detail) = &self.detail {
            body["detail"] = json!(detail);
        }
        if !self.fields.is_empty() {
            let fields = self.fields.iter();
            let shown = fields.map(|(field, detail)| json!({"field": field, "detail": detail}));
            body["validations"] = shown.collect();
        }
        body
    }
}

impl From<ApiError> for ResponseDraft {
    fn from(error: ApiError) -> Self {
        Self {
            status: error.status,
            code: None,
            body: Body::Json(error.body()),
        }
    }
}
