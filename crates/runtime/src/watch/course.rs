//! The course of one watch: what to do next after each thing that can happen to it.
//!
//! Pure: it neither waits nor asks. `drive` carries the steps out and reports how they went.

use std::mem;
use std::time::Duration;

use super::ReflectorTiming;
use crate::version::ResourceVersion;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReflectorStep {
    /// Fetch a page of the list.
    List(ListPage),
    /// Watch from this version.
    Watch {
        from: String,
        /// For how long the server is asked to keep it open.
        lifetime: Duration,
    },
}

/// Which page.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListPage {
    First,
    /// The one this token stands for.
    Next(String),
    /// Everything at once: the server forgot the list while its pages were read.
    Whole,
}

/// What ended a connection or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Disconnect {
    /// The server ended the stream when it had been asked to: all is well.
    Ended,
    /// The server ended the stream before its time.
    Closed,
    /// The stream broke, perhaps in the middle of a line.
    Cut,
    /// Nothing was heard for too long.
    Silence,
    /// The server no longer has the versions since then (410), or what it sends makes no sense.
    Expired,
    /// The server answered with an error.
    Refused,
    /// There was no answer in time, or none at all.
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

/// Where a watch stands.
#[derive(Debug)]
pub(super) struct ReflectorState {
    timing: ReflectorTiming,
    rng: fastrand::Rng,
    step: ReflectorStep,
    /// Losses since the server last got anywhere with us.
    losses: u32,
    /// Connections in a row that ended in silence.
    silences: u32,
    /// Something arrived on this connection.
    progress: bool,
    /// Lists in a row that were older than what has been shown.
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

    /// A page of the list arrived, with the token of the next one or, at the end, the version.
    pub(super) fn record_page(&mut self, next: Option<String>, version: &str) {
        self.step = match next {
            Some(token) => ReflectorStep::List(ListPage::Next(token)),
            None => self.watch_step(version.to_owned()),
        };
    }

    /// Whether a finished list may be taken over. A server that lags behind may answer with a state
    /// older than the one already shown; but after a restore from a backup the older one is true.
    pub(super) fn accept_list(
        &mut self,
        version: &ResourceVersion,
        seen: Option<&ResourceVersion>,
    ) -> bool {
        if seen.is_some_and(|seen| version.includes(seen) == Some(false)) {
            self.rollbacks += 1;
            if self.rollbacks < ROLLBACK_CONFIRMATIONS {
                return false;
            }
        }
        self.rollbacks = 0;
        true
    }

    /// The server opened the watch. Whether that alone shows that it is alive: after a silence only
    /// something heard does, or an end in due time.
    pub(super) fn record_open(&mut self) -> bool {
        self.progress = false;
        self.silences == 0
    }

    /// An event or a bookmark arrived: a reconnect goes on from its version. Whether it is the first
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

    /// Something ended the connection or the request, which had `lasted` that long. How long to wait
    /// before the next step.
    pub(super) fn record_loss(&mut self, loss: Disconnect, lasted: Duration) -> Duration {
        let was_listing = matches!(self.step, ReflectorStep::List(_));
        self.step = match (&self.step, loss) {
            (ReflectorStep::List(ListPage::Next(_)), Disconnect::Expired) => {
                ReflectorStep::List(ListPage::Whole)
            }
            (ReflectorStep::List(_), _) | (_, Disconnect::Expired) => {
                ReflectorStep::List(ListPage::First)
            }
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
        // The end of a connection that worked is no failure, and neither is the first 410 after it.
        // But a server that says one thing and hangs up, again and again, sets no pace: we do.
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

    /// A watch that was silent twice in a row may stay so: a list shows what was missed.
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

    /// Exponential under the cap; half of it is drawn, so that watches part ways after an outage.
    fn backoff_delay(&mut self) -> Duration {
        let doublings = self.losses.saturating_sub(1).min(16);
        let full = self.timing.backoff.0.saturating_mul(1 << doublings);
        let full = full.min(self.timing.backoff.1);
        full / 2 + (full / 2).mul_f64(self.rng.f64())
    }
}

/// A connection that ends within this time is not followed by another at once.
const MIN_CONNECTION_TIME: Duration = Duration::from_secs(1);

/// How many lists in a row must be older than what was shown before they are believed.
const ROLLBACK_CONFIRMATIONS: u32 = 3;

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
