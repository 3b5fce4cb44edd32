//! The right to make one call, and the ear for its answer.

use std::time::Duration;

use http::HeaderMap;

use super::{LimitLane, RateLimiter, lesson};
use crate::telemetry::{InvalidLimitHeader, LimiterClosed};

/// The right to make one call. The slot is free again when it is dropped.
#[must_use = "a permit that is dropped was spent for nothing"]
#[derive(Debug)]
pub struct Permit {
    budget: RateLimiter,
    lane: LimitLane,
}

impl Permit {
    pub(super) fn new(budget: RateLimiter, lane: LimitLane) -> Self {
        Self { budget, lane }
    }

    pub(crate) fn lane(&self) -> LimitLane {
        self.lane
    }

    /// Learns from an answer. A permit that is dropped without it teaches nothing.
    pub fn record_answer(&self, status: u16, headers: &HeaderMap) {
        let wall = self.budget.clock().now();
        let now = self.budget.now();
        let (lesson, before, after) = self.budget.update(|state| {
            let ledger = &mut state.ledger;
            let before = ledger.closed_until(now);
            let mut lesson = lesson::parse_hint(&ledger.config.header_formats, status, headers, wall);
            lesson.invalid_headers += u64::from(ledger.apply_hint(&lesson, now));
            let after = ledger.closed_until(now);
            if after > before {
                // Some waiters will now miss their deadline and should return at once.
                state.notify_waiters(state.waiters.keys().copied());
            } else if lesson.remaining_quota.is_some() {
                state.notify_waiters(state.ledger.first_tickets());
            }
            (lesson, before.unwrap_or(now), after.unwrap_or(now))
        });
        self.emit_closed(
            lesson.refused,
            lesson.invalid_headers,
            after.saturating_sub(now),
            after - before,
        );
    }

    fn emit_closed(&self, refused: bool, nonsense: u64, wait: Duration, longer: Duration) {
        let target = self.budget.target();
        if nonsense > 0 {
            self.budget.telemetry().emit(InvalidLimitHeader {
                target,
                headers: nonsense,
            });
        }
        if refused || !longer.is_zero() {
            self.budget.telemetry().emit(LimiterClosed {
                target,
                refused,
                wait,
                longer,
            });
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let lane = self.lane;
        self.budget.update(|state| {
            state.ledger.complete(lane);
            state.notify_waiters(state.ledger.first_tickets());
        });
    }
}
