//! What a 429 of an API server says: how long to wait, and who is meant.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::RETRY_AFTER;
use http_body_util::{BodyExt, Limited};
use kube::core::Status;
use tower::BoxError;

use super::call::ApiRequest;
use crate::ratelimit::{LimitLane, api};

/// No Status is longer; a proxy's page may be.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// How much of a message is for people.
const MAX_MESSAGE_CHARS: usize = 200;

/// What a 429 says.
#[derive(Debug, Default)]
pub(super) struct ThrottleResponse {
    pub(super) body: Bytes,
    status: Option<Status>,
}

/// Who is meant by a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThrottleScope {
    /// Everybody who calls this server.
    Server,
    /// Whoever reads this collection: its cache is not ready, or a watch of it was refused. Other
    /// calls still go, or one broken kind would hold up all the others; if the server has no room
    /// for them either, it says so itself.
    Collection,
    /// This request alone: a disruption budget, not a rate.
    Request,
}

impl ThrottleResponse {
    pub(super) async fn read(body: kube::client::Body) -> Result<Self, BoxError> {
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await?.to_bytes();
        Ok(Self {
            status: serde_json::from_slice(&body).ok(),
            body,
        })
    }

    /// The headers, with the wait that only the body has.
    pub(super) fn hints(&self, headers: &HeaderMap) -> HeaderMap {
        let mut hints = headers.clone();
        let details = self
            .status
            .as_ref()
            .and_then(|status| status.details.as_ref());
        let seconds = details.map(|details| details.retry_after_seconds);
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
            hints.entry(RETRY_AFTER).or_insert(seconds.into());
        }
        hints
    }

    pub(super) fn scope(&self, call: &ApiRequest, lane: LimitLane) -> ThrottleScope {
        // A Status comes from the collection itself, text from the filter in front of all of them.
        let about_it = self.status.is_some() || lane == api::BACKGROUND;
        if call.is_eviction() {
            ThrottleScope::Request
        } else if call.is_watch() || (call.is_list() && about_it) {
            ThrottleScope::Collection
        } else {
            ThrottleScope::Server
        }
    }

    /// The server's words.
    pub(super) fn message(&self) -> String {
        let text = match &self.status {
            Some(status) => status.message.clone(),
            None => String::from_utf8_lossy(&self.body).trim().to_owned(),
        };
        text.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}

/// How long to leave a collection alone.
pub(super) fn retry_delay(hints: &HeaderMap) -> Duration {
    let text = hints.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = text.and_then(|text| text.trim().parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds).clamp(Duration::from_millis(100), Duration::from_secs(3600))
}
