//! Bounds that keep a server up however many ask at once.
//!
//! What is beyond a bound is refused at once and costs nobody else anything; nothing waits here.

use std::sync::Arc;

use aplomb_apimachinery::status::ApiError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::route::RequestInfo;

/// How much a server takes on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections; one more is closed as soon as it is accepted.
    pub connections: usize,
    /// Requests that only read, watches aside; one more is answered 429.
    pub requests: Option<usize>,
    /// Requests that may change something; one more is answered 429.
    pub mutating_requests: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            requests: None,
            mutating_requests: None,
        }
    }
}

/// The requests that are being answered.
#[derive(Debug)]
pub(super) struct InFlight {
    reading: Option<Arc<Semaphore>>,
    mutating: Option<Arc<Semaphore>>,
}

impl InFlight {
    pub(super) fn new(limits: &Limits) -> Self {
        let room = |limit: usize| Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        Self {
            reading: limits.requests.map(room),
            mutating: limits.mutating_requests.map(room),
        }
    }

    /// Room for a request until the answer is dropped.
    ///
    /// # Errors
    /// 429, in the words of the server.
    pub(super) fn admit(&self, info: &RequestInfo) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let bucket = match info.verb.as_str() {
            // It lasts, and would keep everybody else out.
            "watch" => return Ok(None),
            "create" | "update" | "patch" | "delete" | "deletecollection" | "post" | "put" => &self.mutating,
            _ => &self.reading,
        };
        let Some(bucket) = bucket else {
            return Ok(None);
        };
        let room = bucket.clone().try_acquire_owned();
        room.map(Some).map_err(|_| {
            let message = "Too many requests, please try again later.";
            let mut refusal = ApiError::plain(429, message);
            refusal.retry_after = Some(1);
            refusal
        })
    }
}
