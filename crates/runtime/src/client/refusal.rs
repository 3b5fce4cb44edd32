//! Interprets a 429 of an API server: how long to wait, and which callers are affected.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::RETRY_AFTER;
use http_body_util::{BodyExt, Limited};
use kube::core::Status;
use tower::BoxError;

use super::call::ApiRequest;
use crate::ratelimit::{LimitLane, api};

/// Maximum size of a Status; a proxy's page may be longer.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// The maximum length of a message in errors.
const MAX_MESSAGE_CHARS: usize = 200;

/// The content of a 429.
#[derive(Debug, Default)]
pub(super) struct ThrottleResponse {
    pub(super) body: Bytes,
    status: Option<Status>,
}

/// The callers that a refusal affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThrottleScope {
    /// All callers of this server.
    Server,
    /// Readers of this collection: its cache is not ready, or a watch of it was rejected. Other
    /// calls continue; otherwise one broken kind would delay all the others. If the server has no room
    /// for them either, it rejects them itself.
    Collection,
    /// This request alone: a disruption budget, not a rate limit.
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

    /// The headers, with the wait that is only in the body.
    pub(super) fn hints(&self, headers: &HeaderMap) -> HeaderMap {
        let mut hints = headers.clone();
        let details = self.status.as_ref().and_then(|status| status.details.as_ref());
        let seconds = details.map(|details| details.retry_after_seconds);
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
            hints.entry(RETRY_AFTER).or_insert(seconds.into());
        }
        hints
    }

    pub(super) fn scope(&self, call: &ApiRequest, lane: LimitLane) -> ThrottleScope {
        // A Status comes from the collection itself, plain text from the filter in front of all of them.
        let about_it = self.status.is_some() || lane == api::BACKGROUND;
        if call.is_eviction() {
            ThrottleScope::Request
        } else if call.is_watch() || (call.is_list() && about_it) {
            ThrottleScope::Collection
        } else {
            ThrottleScope::Server
        }
    }

    /// The server's message.
    pub(super) fn message(&self) -> String {
        let text = match &self.status {
            Some(status) => status.message.clone(),
            None => String::from_utf8_lossy(&self.body).trim().to_owned(),
        };
        text.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}

/// How long not to call a collection.
pub(super) fn retry_delay(hints: &HeaderMap) -> Duration {
    let text = hints.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = text.and_then(|text| text.trim().parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds).clamp(Duration::from_millis(100), Duration::from_secs(3600))
}
