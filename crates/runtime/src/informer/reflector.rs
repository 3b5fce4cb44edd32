//! The state machine of one watch: the next step after each possible event.
//!
//! Pure: it neither waits nor sends requests. `drive` carries out the steps and reports the results.

#[cfg(test)]
mod tests;

use std::mem;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use tokio::time::Instant;

use crate::error::Error;
use crate::informer::ReflectorTiming;
use crate::key::ResourceVersion;

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReflectorStep {
    /// Fetch a page of the list.
    List(ListPage),
    /// Watch from this version.
    Watch {
        from: String,
        /// How long the server should keep it open.
        lifetime: Duration,
    },
}

/// The page to fetch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListPage {
    First,
    /// The page of this continue token.
    Next(String),
    /// Everything at once: the server dropped the list while its pages were read.
    Whole,
}

/// Why a connection or a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Disconnect {
    /// The server ended the stream at the requested time, which is normal.
    Ended,
    /// The server ended the stream before its time.
    Closed,
    /// The stream broke, perhaps in the middle of a line.
    Cut,
    /// Nothing was received for too long.
    Silence,
    /// The server no longer has the versions since then (410), or its data is invalid.
    Expired,
    /// The server responded with an error.
    Refused,
    /// The response did not come in time, or the connection failed.
    Unreachable,
}

impl Disconnect {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Closed => "closed",
            Self::Cut => "cut",
            Self::Silence => "silence",
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// The state of a watch.
#[derive(Debug)]
pub(super) struct ReflectorState {
    timing: ReflectorTiming,
    rng: fastrand::Rng,
    step: ReflectorStep,
    /// Losses since the last progress.
    losses: u32,
    /// Connections in a row that ended without receiving anything.
    silences: u32,
    /// Data was received on this connection.
    progress: bool,
    /// Lists in a row that were older than the state already shown.
    rollbacks: u32,
}

impl ReflectorState {
    pub(super) fn new(timing: ReflectorTiming, seed: u64) -> Self {
        Self {
            timing,
            rng: fastrand::Rng::with_seed(seed),
            step: ReflectorStep::List(ListPage::First),
            losses: 0,
            silences: 0,
            progress: false,
            rollbacks: 0,
        }
    }

    pub(super) fn step(&self) -> &ReflectorStep {
        &self.step
    }

    /// A page of the list was received, with the token of the next one or, at the end, the version.
    pub(super) fn record_page(&mut self, next: Option<String>, version: &str) {
        self.step = match next {
            Some(token) => ReflectorStep::List(ListPage::Next(token)),
            None => self.watch_step(version.to_owned()),
        };
    }

    /// Whether a finished list may be applied. A lagging server may return a state
    /// older than the one already shown; but after a restore from a backup the older state is the current one.
    pub(super) fn accept_list(&mut self, version: &ResourceVersion, seen: Option<&ResourceVersion>) -> bool {
        if seen.is_some_and(|seen| version.includes(seen) == Some(false)) {
            self.rollbacks += 1;
            if self.rollbacks < ROLLBACK_CONFIRMATIONS {
                return false;
            }
        }
        self.rollbacks = 0;
        true
    }

    /// The server opened the watch. Returns whether that alone shows that it is alive: after a silent connection
    /// only received data does, or an end at the requested time.
    pub(super) fn record_open(&mut self) -> bool {
        self.progress = false;
        self.silences == 0
    }

    /// An event or a bookmark was received: a reconnect continues from its version. Returns whether it is the first
    /// of its connection.
    pub(super) fn record_event(&mut self, version: String) -> bool {
        let first = !mem::replace(&mut self.progress, true);
        self.losses = 0;
        self.silences = 0;
        if let ReflectorStep::Watch { from, .. } = &mut self.step {
            *from = version;
        }
        first
    }

    /// The connection or the request ended after `lasted`. Returns how long to wait
    /// before the next step.
    pub(super) fn record_loss(&mut self, loss: Disconnect, lasted: Duration) -> Duration {
        let was_listing = matches!(self.step, ReflectorStep::List(_));
        self.step = match (&self.step, loss) {
            (ReflectorStep::List(ListPage::Next(_)), Disconnect::Expired) => ReflectorStep::List(ListPage::Whole),
            (ReflectorStep::List(_), _) | (_, Disconnect::Expired) => ReflectorStep::List(ListPage::First),
            (ReflectorStep::Watch { from, .. }, _) => {
                let from = from.clone();
                self.step_after_watch(from, loss)
            }
        };
        let progress = mem::take(&mut self.progress) || loss == Disconnect::Silence;
        if loss == Disconnect::Ended {
            self.losses = 0;
            self.silences = 0;
            return Duration::ZERO;
        }
        // The end of a connection that worked is not a failure, and neither is the first 410 after it.
        // But if a server sends one event and closes, again and again, the backoff applies.
        let worked = progress && lasted > MIN_CONNECTION_TIME;
        let gentle = matches!(
            loss,
            Disconnect::Closed | Disconnect::Cut | Disconnect::Expired | Disconnect::Silence
        );
        if !was_listing && gentle && (worked || !progress && self.losses == 0) {
            if !worked {
                self.losses += 1;
            }
            return Duration::ZERO;
        }
        self.losses = self.losses.saturating_add(1);
        self.backoff_delay()
    }

    /// A watch that was silent twice in a row may stay silent: a list shows the missed changes.
    fn step_after_watch(&mut self, from: String, loss: Disconnect) -> ReflectorStep {
        if loss == Disconnect::Silence {
            self.silences += 1;
            if self.silences >= 2 {
                self.silences = 0;
                return ReflectorStep::List(ListPage::First);
            }
        }
        self.watch_step(from)
    }

    fn watch_step(&mut self, from: String) -> ReflectorStep {
        let (low, high) = self.timing.lifetime;
        let lifetime = low + high.saturating_sub(low).mul_f64(self.rng.f64());
        ReflectorStep::Watch { from, lifetime }
    }

    /// Exponential up to the cap; half of it is random, so that watches spread out after an outage.
    fn backoff_delay(&mut self) -> Duration {
        let doublings = self.losses.saturating_sub(1).min(16);
        let full = self.timing.backoff.0.saturating_mul(1 << doublings);
        let full = full.min(self.timing.backoff.1);
        full / 2 + (full / 2).mul_f64(self.rng.f64())
    }
}

/// A connection that ends within this time is not followed by another at once.
const MIN_CONNECTION_TIME: Duration = Duration::from_secs(1);

/// How many lists in a row must be older than the state already shown before they are accepted.
const ROLLBACK_CONFIRMATIONS: u32 = 3;

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
