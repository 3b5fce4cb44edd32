//! Who may call next: tokens, reserves, slots and the order of those who wait. Pure.
//!
//! Time is a span since the budget was made, given by the caller. What flows in fills the reserves
//! first, in the order of the lanes, and then what all share; one token in [`PAST`] flows past the
//! reserves, and one shared token in [`FAIR`] goes to each lane in turn, so that no lane, however
//! busy, starves another. A lane spends what is shared before its own reserve.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::LimitLane;
use super::bucket::TokenBucket;
use super::config::LimitConfig;
use super::flow::RefillSchedule;

/// One token in this many flows past the reserves.
const SHARED_REFILL_RATIO: f64 = 8.0;
/// One shared token in this many goes to each lane in turn.
const FAIR_GRANT_INTERVAL: u64 = 8;

/// A place in a queue. Smaller came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WaitTicket(u64);

#[derive(Debug)]
pub(super) struct BucketModel {
    pub(super) config: LimitConfig,
    pub(super) flow: RefillSchedule,
    /// Up to when what flowed is accounted for.
    pub(super) at: Duration,
    pub(super) shared: TokenBucket,
    pub(super) lanes: Vec<LaneBalance>,
    /// Granted and not yet taken up.
    granted: BTreeMap<WaitTicket, Grant>,
    tickets: u64,
    shared_grants: u64,
    /// Refusals in a row that did not say how long.
    pub(super) unhinted: u32,
}

#[derive(Debug)]
pub(super) struct LaneBalance {
    pub(super) reserve: TokenBucket,
    slots: usize,
    in_flight: usize,
    waiting: BTreeSet<WaitTicket>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    lane: usize,
    from_reserve: bool,
}

impl BucketModel {
    pub(super) fn new(config: LimitConfig) -> Self {
        let config = config.normalized();
        let lane = |reserve, slots| LaneBalance {
            reserve: TokenBucket::full(f64::from(reserve)),
            slots,
            in_flight: 0,
            waiting: BTreeSet::new(),
        };
        let table = config.lanes.iter();
        let lanes: Vec<_> = table.map(|row| lane(row.reserve, row.slots)).collect();
        let reserved: f64 = lanes.iter().map(|lane| lane.reserve.cap()).sum();
        let shared = (f64::from(config.burst) - reserved).max(1.0);
        Self {
            flow: RefillSchedule::constant(config.rate),
            at: Duration::ZERO,
            shared: TokenBucket::full(shared),
            lanes,
            granted: BTreeMap::new(),
            tickets: 0,
            shared_grants: 0,
            unhinted: 0,
            config,
        }
    }

    /// Takes a place at the end of a lane.
    pub(super) fn enqueue(&mut self, lane: LimitLane) -> WaitTicket {
        self.tickets += 1;
        let ticket = WaitTicket(self.tickets);
        let lane = self.config.lane_index(lane);
        self.lanes[lane].waiting.insert(ticket);
        ticket
    }

    /// Grants what can be granted now.
    pub(super) fn grant_ready(&mut self, now: Duration) -> Vec<WaitTicket> {
        self.refill(now);
        let mut granted = Vec::new();
        while let Some((lane, ticket)) = self.next_grant() {
            let state = &mut self.lanes[lane];
            state.waiting.remove(&ticket);
            state.in_flight += 1;
            let from_reserve = !self.shared.has_token();
            if from_reserve {
                state.reserve.take_token();
            } else {
                self.shared.take_token();
                self.shared_grants += 1;
            }
            self.granted.insert(ticket, Grant { lane, from_reserve });
            granted.push(ticket);
        }
        granted
    }

    #[cfg(test)]
    pub(super) fn is_granted(&self, ticket: WaitTicket) -> bool {
        self.granted.contains_key(&ticket)
    }

    /// Takes up what was granted to a ticket. It counts as in flight until [`BucketModel::finish`].
    pub(super) fn take_grant(&mut self, ticket: WaitTicket) -> bool {
        self.granted.remove(&ticket).is_some()
    }

    /// The ticket is not needed any more. A grant that was not taken up is returned.
    pub(super) fn cancel(&mut self, ticket: WaitTicket) {
        for lane in &mut self.lanes {
            lane.waiting.remove(&ticket);
        }
        if let Some(grant) = self.granted.remove(&ticket) {
            let lane = &mut self.lanes[grant.lane];
            lane.in_flight -= 1;
            let bucket = if grant.from_reserve {
                &mut lane.reserve
            } else {
                &mut self.shared
            };
            bucket.fill(1.0);
        }
    }

    /// Takes back what was granted and not taken up; its tickets wait again, where they were.
    pub(super) fn revoke(&mut self) {
        for (ticket, grant) in std::mem::take(&mut self.granted) {
            let lane = &mut self.lanes[grant.lane];
            lane.in_flight -= 1;
            lane.waiting.insert(ticket);
        }
        self.shared_grants = 0;
    }

    /// A call of this lane is over.
    pub(super) fn complete(&mut self, lane: LimitLane) {
        let lane = self.config.lane_index(lane);
        let in_flight = &mut self.lanes[lane].in_flight;
        *in_flight = in_flight.saturating_sub(1);
    }

    /// When a grant is possible that is not possible now, if slots allow any.
    pub(super) fn next_grant_at(&self) -> Option<Duration> {
        let waiting = |&lane: &usize| !self.lanes[lane].waiting.is_empty();
        let lanes = (0..self.lanes.len()).filter(waiting);
        let open = lanes.filter(|&lane| self.has_slot(lane));
        open.map(|lane| self.time_of_amount(self.missing_tokens(lane))).min()
    }

    /// When one more waiter of this lane is served, at the earliest: after those before it.
    pub(super) fn forecast(&self, lane: LimitLane) -> Duration {
        let lane = self.config.lane_index(lane);
        let before = &self.lanes[..=lane];
        let ahead: usize = before.iter().map(|lane| lane.waiting.len()).sum();
        let reserves: f64 = before.iter().map(|lane| lane.reserve.level()).sum();
        let behind = ahead as f64 + 1.0 - self.shared.level() - reserves;
        self.time_of_amount(self.missing_tokens(lane).max(behind))
    }

    /// When so much more has flowed and calls are allowed.
    fn time_of_amount(&self, amount: f64) -> Duration {
        let opens = self.flow.closed_until(self.at).unwrap_or(self.at);
        self.flow.time_of_amount(self.at, amount).max(opens)
    }

    pub(super) fn closed_until(&self, now: Duration) -> Option<Duration> {
        self.flow.closed_until(now)
    }

    /// The first of each lane: whose turn it may be next.
    pub(super) fn first_tickets(&self) -> impl Iterator<Item = WaitTicket> {
        let first = |lane: &LaneBalance| lane.waiting.first().copied();
        self.lanes.iter().filter_map(first)
    }

    /// Tokens a lane can spend, those who wait, calls in flight.
    pub(super) fn lane_levels(&self, lane: usize) -> (f64, usize, usize) {
        let state = &self.lanes[lane];
        let tokens = self.shared.level() + state.reserve.level();
        (tokens, state.waiting.len(), state.in_flight)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.in_flight).sum()
    }

    pub(super) fn refill(&mut self, now: Duration) {
        let now = now.max(self.at);
        let flowed = self.flow.amount_between(self.at, now);
        self.at = now;
        self.flow.drop_expired(now);
        let mut rest = flowed * (1.0 - 1.0 / SHARED_REFILL_RATIO);
        for lane in &mut self.lanes {
            rest = lane.reserve.fill(rest);
        }
        let mut over = self.shared.fill(rest + flowed / SHARED_REFILL_RATIO);
        for lane in &mut self.lanes {
            over = lane.reserve.fill(over);
        }
    }

    /// The next waiter to serve, if one can be served.
    fn next_grant(&self) -> Option<(usize, WaitTicket)> {
        if self.flow.closed_until(self.at).is_some() {
            return None;
        }
        let can = |lane: usize| {
            let state = &self.lanes[lane];
            let token = self.shared.has_token() || state.reserve.has_token();
            let ticket = state.waiting.first().copied()?;
            (token && self.has_slot(lane)).then_some((lane, ticket))
        };
        let many = self.lanes.len();
        let first = if self.shared.has_token() && self.shared_grants % FAIR_GRANT_INTERVAL == FAIR_GRANT_INTERVAL - 1 {
            // Another lane each time, from the least urgent on.
            many - 1 - (self.shared_grants / FAIR_GRANT_INTERVAL) as usize % many
        } else {
            0
        };
        (0..many).map(|step| (first + step) % many).find_map(can)
    }

    fn has_slot(&self, lane: usize) -> bool {
        let state = &self.lanes[lane];
        if state.in_flight < state.slots {
            return true;
        }
        let reserved: usize = self.lanes.iter().map(|lane| lane.slots).sum();
        let taken = |lane: &LaneBalance| lane.in_flight.saturating_sub(lane.slots);
        let shared: usize = self.lanes.iter().map(taken).sum();
        shared < self.config.concurrency.saturating_sub(reserved).max(1)
    }

    /// How much must flow until a lane has a token.
    fn missing_tokens(&self, lane: usize) -> f64 {
        let state = &self.lanes[lane];
        if self.shared.has_token() || state.reserve.has_token() {
            return 0.0;
        }
        let wanted = 1.0 - self.shared.level();
        let missing = |lanes: &[LaneBalance]| -> f64 { lanes.iter().map(|lane| lane.reserve.missing()).sum() };
        // What flows past the reserves is enough, or they are full before.
        let shared = (wanted * SHARED_REFILL_RATIO).min(wanted + missing(&self.lanes));
        if state.reserve.cap() < 1.0 {
            return shared;
        }
        let own = missing(&self.lanes[..lane]) + 1.0 - state.reserve.level();
        shared.min(own * SHARED_REFILL_RATIO / (SHARED_REFILL_RATIO - 1.0))
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
