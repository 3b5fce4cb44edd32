//! A place in a lane, from entering it to the permit, or to giving it up.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::ledger::WaitTicket;
use super::permit::Permit;
use super::{LimitLane, RateLimiter};

/// The next step of a waiter.
pub(super) enum WaitState {
    /// The permit, and how many more the lane could have at once.
    Granted(Permit, f64),
    /// The deadline is over, or the budget stays closed past it.
    TooLate,
    /// Look again when told, or at this moment.
    WaitUntil(Instant),
}

/// A place in a lane. Given up when dropped, with what was granted and not taken.
pub(super) struct WaitSlot {
    budget: RateLimiter,
    lane: LimitLane,
    ticket: WaitTicket,
    notify: Arc<Notify>,
    is_taken: bool,
}

impl WaitSlot {
    /// Takes the last place of a lane, unless it would come too late.
    pub(super) fn enter(budget: &RateLimiter, lane: LimitLane, deadline: Instant) -> Option<Self> {
        let told = Arc::new(Notify::new());
        let ticket = budget.update(|state| {
            if budget.instant_at(state.ledger.forecast(lane)) > deadline {
                return None;
            }
            let ticket = state.ledger.enqueue(lane);
            state.waiters.insert(ticket, told.clone());
            Some(ticket)
        })?;
        Some(Self {
            budget: budget.clone(),
            lane,
            ticket,
            notify: told,
            is_taken: false,
        })
    }

    /// Takes what is granted, and else says what to do. One step under the lock: between a look and
    /// a take, a refusal seen by another thread might take the grant back. Only the first of a lane
    /// has to look at the time: it wakes the one behind it.
    pub(super) fn advance(&mut self, deadline: Instant) -> WaitState {
        let (budget, now) = (&self.budget, self.budget.now());
        budget.update(|state| {
            if state.ledger.take_grant(self.ticket) {
                self.is_taken = true;
                state.waiters.remove(&self.ticket);
                let lane = state.ledger.config.lane_index(self.lane);
                let permit = Permit::new(budget.clone(), self.lane);
                return WaitState::Granted(permit, state.ledger.lane_levels(lane).0);
            }
            let ledger = &state.ledger;
            let reopens = ledger.closed_until(now).unwrap_or(now);
            if budget.instant_at(reopens) >= deadline {
                return WaitState::TooLate;
            }
            let first = ledger.first_tickets().any(|head| head == self.ticket);
            let next = first.then(|| ledger.next_grant_at()).flatten();
            WaitState::WaitUntil(next.map_or(deadline, |next| budget.instant_at(next).min(deadline)))
        })
    }

    /// Returns when there is something to look at.
    pub(super) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for WaitSlot {
    fn drop(&mut self) {
        if !self.is_taken {
            let ticket = self.ticket;
            self.budget.update(|state| {
                state.waiters.remove(&ticket);
                state.ledger.cancel(ticket);
            });
        }
    }
}
