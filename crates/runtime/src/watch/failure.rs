//! Why a request or a stream ended, from the server's response or the transport error.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use tokio::time::Instant;

use super::course::Disconnect;
use crate::error::Error;

/// Why a step ended.
pub(super) struct WatchFailure {
    pub(super) loss: Disconnect,
    pub(super) reason: String,
    /// How long the server requested us to wait.
    pub(super) wait: Duration,
}

impl WatchFailure {
    pub(super) fn new(loss: Disconnect, why: impl Into<String>) -> Self {
        Self {
            loss,
            reason: why.into(),
            wait: Duration::ZERO,
        }
    }
}

pub(super) fn from_refusal(error: &Error) -> WatchFailure {
    WatchFailure::new(Disconnect::Refused, error.to_string())
}

pub(super) fn from_unreachable(error: &Error) -> WatchFailure {
    let mut failure = WatchFailure::new(Disconnect::Unreachable, error.to_string());
    if let Some(until) = error.until() {
        failure.wait = until.saturating_duration_since(Instant::now());
    }
    failure
}

pub(super) fn from_status(status: &Status) -> WatchFailure {
    let loss = if status.code == StatusCode::GONE.as_u16() {
        Disconnect::Expired
    } else {
        Disconnect::Refused
    };
    WatchFailure::new(loss, format!("{} ({})", status.message, status.code))
}

pub(super) async fn from_response(response: Response<Body>) -> WatchFailure {
    let code = response.status();
    let wait = retry_after(response.headers());
    let body = response.into_body().collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    // A proxy responds with its own page, which does not belong in a log.
    let mut failure = match serde_json::from_slice::<Status>(&bytes) {
        Ok(status) => from_status(&status.with_code(code.as_u16())),
        Err(_) if code == StatusCode::GONE => WatchFailure::new(Disconnect::Expired, code.to_string()),
        Err(_) => WatchFailure::new(Disconnect::Refused, code.to_string()),
    };
    failure.wait = wait;
    failure
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(Duration::ZERO, Duration::from_secs)
}
