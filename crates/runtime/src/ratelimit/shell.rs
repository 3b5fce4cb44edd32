//! The ledger with a clock and with waiters: what the rest of the runtime holds in its hands.
//!
//! Nothing here runs by itself. The waiters drive the ledger: the first of each lane sleeps until
//! a token can be there, the others until they are woken. The lock is never held across an await.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::LimitLane;
use super::config::LimitConfig;
use super::ledger::{BucketModel, WaitTicket};
use super::permit::Permit;
use super::place::{WaitSlot, WaitState};
use super::snapshot::LimiterSnapshot;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::telemetry::{LimiterRefused, LimiterWaited, Telemetry};

/// How often a waiter checks for a free slot: the end of another call cannot be predicted.
const SLOT_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What may be spent on one target with one credential. Clones share it.
#[derive(Clone)]
pub struct RateLimiter(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    lanes: Vec<Arc<str>>,
    started: Instant,
    clock: Clock,
    telemetry: Telemetry,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) ledger: BucketModel,
    pub(super) waiters: BTreeMap<WaitTicket, Arc<Notify>>,
}

impl RateLimiter {
    /// A budget for the target called `name`, full. The clock is for answers that speak of wall
    /// time and carry none.
    #[must_use]
    pub fn new(name: &str, config: LimitConfig, telemetry: Telemetry, clock: Clock) -> Self {
        let ledger = BucketModel::new(config);
        let names = ledger.config.lanes.iter();
        Self(Arc::new(Inner {
            name: name.into(),
            lanes: names.map(|lane| lane.name.as_str().into()).collect(),
            started: Instant::now(),
            clock,
            telemetry,
            state: Mutex::new(State {
                ledger,
                waiters: BTreeMap::new(),
            }),
        }))
    }

    /// The target's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Waits for the right to make one call. Dropping the future gives the place up.
    ///
    /// # Errors
    /// [`ErrorClass::Throttled`](crate::ErrorClass::Throttled), at once, if it cannot be had before `deadline`.
    pub async fn acquire(&self, lane: LimitLane, deadline: Instant) -> Result<Permit> {
        let begin = Instant::now();
        let Some(mut place) = WaitSlot::enter(self, lane, deadline) else {
            return Err(self.exhausted_error(lane));
        };
        let (permit, tokens) = loop {
            let next = match place.advance(deadline) {
                WaitState::Granted(permit, tokens) => break (permit, tokens),
                WaitState::TooLate => return Err(self.exhausted_error(lane)),
                WaitState::WaitUntil(next) => next,
            };
            tokio::select! {
                biased;
                () = place.notified() => {}
                () = sleep_until(next) => {}
            }
        };
        self.0.telemetry.emit(LimiterWaited {
            target: &self.0.name,
            lane: self.lane_name(lane),
            waited: begin.elapsed(),
            tokens,
        });
        Ok(permit)
    }

    /// When calls are allowed again, if none is now.
    #[must_use]
    pub fn closed_until(&self) -> Option<Instant> {
        let now = self.now();
        let until = self.update(|state| state.ledger.closed_until(now));
        until.map(|until| self.instant_at(until))
    }

    /// What is there to spend, for people.
    #[must_use]
    pub fn snapshot(&self) -> LimiterSnapshot {
        let now = self.now();
        self.update(|state| LimiterSnapshot::from_model(&self.0.name, &state.ledger, now))
    }

    pub(crate) fn target(&self) -> &Arc<str> {
        &self.0.name
    }

    pub(crate) fn lane_name(&self, lane: LimitLane) -> &Arc<str> {
        &self.0.lanes[lane.0.min(self.0.lanes.len() - 1)]
    }

    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.0.telemetry
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The budget's time.
    pub(super) fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// A moment of the budget's time.
    pub(super) fn instant_at(&self, moment: Duration) -> Instant {
        self.0.started + moment
    }

    fn exhausted_error(&self, lane: LimitLane) -> Error {
        let now = self.now();
        let forecast = self.update(|state| state.ledger.forecast(lane));
        let until = forecast.max(now + SLOT_POLL_INTERVAL);
        self.0.telemetry.emit(LimiterRefused {
            target: &self.0.name,
            lane: self.lane_name(lane),
            wait: until.saturating_sub(now),
        });
        let what = format!("rate limit for {} exhausted", self.0.name);
        Error::throttled(what, self.instant_at(until))
    }

    /// Brings the ledger up to now, changes it, grants what it then can, and wakes the waiters
    /// that were granted something or that are first in line now and were not before.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let now = self.now();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let first: Vec<_> = state.ledger.first_tickets().collect();
        let mut granted = state.ledger.grant_ready(now);
        let value = change(&mut state);
        granted.extend(state.ledger.grant_ready(now));
        let heads = state.ledger.first_tickets().filter(|head| !first.contains(head));
        state.notify_waiters(granted.into_iter().chain(heads));
        value
    }
}

impl State {
    /// Has these look again.
    pub(super) fn notify_waiters(&self, tickets: impl Iterator<Item = WaitTicket>) {
        for ticket in tickets {
            if let Some(waiter) = self.waiters.get(&ticket) {
                waiter.notify_one();
            }
        }
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Budget").field(&self.0.name).finish()
    }
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
