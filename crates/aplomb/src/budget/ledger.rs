//! Who may call next: tokens, reserves, slots and the order of those who wait. Pure.
//!
//! Time is a span since the budget was made, given by the caller. What flows in fills the reserves
//! first, in the order of the lanes, and then what all share; one token in [`PAST`] flows past the
//! reserves, and one shared token in [`FAIR`] goes to whoever waits longest, so that no lane, however
//! busy, starves another. A lane spends what is shared before its own reserve.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Lane;
use super::config::Config;
use super::dialect::Quota;
use super::flow::Flow;
use super::lesson::Lesson;

/// One token in this many flows past the reserves.
const PAST: f64 = 8.0;
/// One shared token in this many goes to whoever waits longest.
const FAIR: u64 = 8;
/// What rounding may take from a whole token.
const ROUNDING: f64 = 1e-6;
/// How long a refusal closes the budget at least, so that "now" is no hot loop.
const SHORTEST: Duration = Duration::from_millis(100);
/// How long a refusal without a hint closes it, doubled with each until [`UNHINTED_MOST`].
const UNHINTED: Duration = Duration::from_secs(1);
const UNHINTED_MOST: Duration = Duration::from_secs(60);

/// A place in a queue. Smaller came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
pub(super) struct Ledger {
    config: Config,
    flow: Flow,
    /// Up to when what flowed is accounted for.
    at: Duration,
    shared: Bucket,
    lanes: Vec<LaneState>,
    granted: BTreeMap<Ticket, Grant>,
    tickets: u64,
    shared_grants: u64,
    unhinted: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: f64,
    cap: f64,
}

#[derive(Debug)]
struct LaneState {
    reserve: Bucket,
    slots: usize,
    in_flight: usize,
    waiting: BTreeMap<Ticket, ()>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    lane: usize,
    from_reserve: bool,
}

impl Bucket {
    fn full(cap: f64) -> Self {
        Self { level: cap, cap }
    }

    fn missing(self) -> f64 {
        self.cap - self.level
    }

    fn has_one(self) -> bool {
        self.level >= 1.0 - ROUNDING
    }

    /// Takes what fits and gives back the rest.
    fn fill(&mut self, amount: f64) -> f64 {
        let fits = amount.min(self.missing());
        self.level += fits;
        amount - fits
    }

    fn spend(&mut self) {
        self.level = (self.level - 1.0).max(0.0);
    }

    /// Gives up to `amount` away and says what is still to be given.
    fn drain(&mut self, amount: f64) -> f64 {
        let given = amount.min(self.level);
        self.level -= given;
        amount - given
    }
}

impl Ledger {
    pub(super) fn new(config: Config) -> Self {
        let lane = |reserve, slots| LaneState {
            reserve: Bucket::full(reserve),
            slots,
            in_flight: 0,
            waiting: BTreeMap::new(),
        };
        let mut lanes: Vec<_> = config
            .lanes
            .iter()
            .map(|config| lane(f64::from(config.reserve), config.slots))
            .collect();
        if lanes.is_empty() {
            lanes.push(lane(0.0, 0));
        }
        let reserved: f64 = lanes.iter().map(|lane| lane.reserve.cap).sum();
        let shared = (f64::from(config.burst) - reserved).max(1.0);
        Self {
            flow: Flow::steady(config.sane_rate()),
            at: Duration::ZERO,
            shared: Bucket::full(shared),
            lanes,
            granted: BTreeMap::new(),
            tickets: 0,
            shared_grants: 0,
            unhinted: 0,
            config,
        }
    }

    /// Takes a place at the end of a lane.
    pub(super) fn enqueue(&mut self, lane: Lane) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let lane = self.config.index(lane);
        self.lanes[lane].waiting.insert(ticket, ());
        ticket
    }

    /// Grants what can be granted now.
    pub(super) fn pump(&mut self, now: Duration) -> Vec<Ticket> {
        self.refill(now);
        let mut granted = Vec::new();
        while let Some(lane) = self.next_lane(now) {
            let state = &mut self.lanes[lane];
            let Some((ticket, ())) = state.waiting.pop_first() else {
                break;
            };
            let from_reserve = !self.shared.has_one();
            if from_reserve {
                state.reserve.spend();
            } else {
                self.shared.spend();
                self.shared_grants += 1;
            }
            state.in_flight += 1;
            self.granted.insert(ticket, Grant { lane, from_reserve });
            granted.push(ticket);
        }
        granted
    }

    pub(super) fn is_granted(&self, ticket: Ticket) -> bool {
        self.granted.contains_key(&ticket)
    }

    /// Takes up what was granted to a ticket. It counts as in flight until [`Ledger::finish`].
    pub(super) fn take(&mut self, ticket: Ticket) -> bool {
        self.granted.remove(&ticket).is_some()
    }

    /// Whoever held the ticket no longer wants it. What was granted and not taken up goes back.
    pub(super) fn cancel(&mut self, ticket: Ticket) {
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
            // A refusal in between may have emptied the bucket for good reason.
            if self.flow.closed_until(self.at).is_none() {
                bucket.fill(1.0);
            }
        }
    }

    /// A call of this lane is over.
    pub(super) fn finish(&mut self, lane: Lane) {
        let lane = self.config.index(lane);
        let in_flight = &mut self.lanes[lane].in_flight;
        *in_flight = in_flight.saturating_sub(1);
    }

    /// Changes what may be spent by what an answer said.
    pub(super) fn learn(&mut self, lesson: &Lesson, now: Duration) {
        self.refill(now);
        if let Some(left) = lesson.left {
            // Calls that are on their way may not be in the target's count yet.
            let others = self.in_flight().saturating_sub(1);
            let remaining = (left.remaining - others as f64).max(0.0);
            self.clip(remaining);
            let over = left.over.min(self.config.longest_wait);
            match left.quota {
                Quota::Leaky => {
                    if let Some(refill) = left.refill {
                        self.flow.pace(refill, now + over);
                    }
                }
                Quota::Window if over.is_zero() => {}
                Quota::Window if left.remaining < 1.0 => self.close(now, over),
                Quota::Window => {
                    let pace = (remaining - self.tokens()).max(0.0) / over.as_secs_f64();
                    self.flow.pace(pace, now + over);
                }
            }
        }
        match (lesson.refused, lesson.wait) {
            (true, Some(wait)) => self.close(now, wait.max(SHORTEST)),
            // Calls that were on their way together are refused together: one step, not many.
            (true, None) if self.flow.closed_until(now).is_some() => {}
            (true, None) => {
                let wait = self.unhinted_wait();
                self.close(now, wait);
            }
            (false, _) => self.unhinted = 0,
        }
    }

    /// When a grant is possible that is not possible now, if slots allow any.
    pub(super) fn next_at(&self) -> Option<Duration> {
        let lanes = (0..self.lanes.len()).filter(|&lane| !self.lanes[lane].waiting.is_empty());
        let open = lanes.filter(|&lane| self.has_slot(lane));
        open.map(|lane| self.flow.when(self.at, self.short_of(lane)))
            .min()
    }

    /// When one more waiter of this lane is served, at the earliest: after those before it.
    pub(super) fn forecast(&self, lane: Lane) -> Duration {
        let lane = self.config.index(lane);
        let before = &self.lanes[..=lane];
        let ahead: usize = before.iter().map(|lane| lane.waiting.len()).sum();
        let reserves: f64 = before.iter().map(|lane| lane.reserve.level).sum();
        let behind = ahead as f64 + 1.0 - self.shared.level - reserves;
        let amount = self.short_of(lane).max(behind);
        let then = self.flow.when(self.at, amount);
        self.flow
            .closed_until(self.at)
            .map_or(then, |until| then.max(until))
    }

    pub(super) fn closed_until(&self, now: Duration) -> Option<Duration> {
        self.flow.closed_until(now)
    }

    /// The first of each lane: whose turn it may be next.
    pub(super) fn heads(&self) -> impl Iterator<Item = Ticket> {
        let first = |lane: &LaneState| lane.waiting.keys().next().copied();
        self.lanes.iter().filter_map(first)
    }

    /// Tokens a lane can spend, those who wait, calls in flight.
    pub(super) fn lane(&self, lane: usize) -> (f64, usize, usize) {
        let state = &self.lanes[lane];
        let tokens = self.shared.level + state.reserve.level;
        (tokens, state.waiting.len(), state.in_flight)
    }

    pub(super) fn rate(&self) -> f64 {
        self.flow.rate(self.at).0
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }
}

impl Ledger {
    fn refill(&mut self, now: Duration) {
        let now = now.max(self.at);
        let flowed = self.flow.between(self.at, now);
        self.at = now;
        self.flow.forget(now);
        let mut rest = flowed * (1.0 - 1.0 / PAST);
        for lane in &mut self.lanes {
            rest = lane.reserve.fill(rest);
        }
        let mut over = self.shared.fill(rest + flowed / PAST);
        for lane in &mut self.lanes {
            over = lane.reserve.fill(over);
        }
    }

    /// The lane that is served next, if one can be.
    fn next_lane(&self, now: Duration) -> Option<usize> {
        if self.flow.closed_until(now).is_some() {
            return None;
        }
        let can = |&lane: &usize| {
            let state = &self.lanes[lane];
            !state.waiting.is_empty()
                && self.has_slot(lane)
                && (self.shared.has_one() || state.reserve.has_one())
        };
        let mut lanes = (0..self.lanes.len()).filter(can);
        if self.shared.has_one() && self.shared_grants % FAIR == FAIR - 1 {
            return lanes.min_by_key(|&lane| self.lanes[lane].waiting.keys().next().copied());
        }
        lanes.next()
    }

    fn has_slot(&self, lane: usize) -> bool {
        let state = &self.lanes[lane];
        if state.in_flight < state.slots {
            return true;
        }
        let reserved: usize = self.lanes.iter().map(|lane| lane.slots).sum();
        let taken = |lane: &LaneState| lane.in_flight.saturating_sub(lane.slots);
        let shared: usize = self.lanes.iter().map(taken).sum();
        shared < self.config.concurrency.saturating_sub(reserved).max(1)
    }

    /// How much must flow until a lane has a token.
    fn short_of(&self, lane: usize) -> f64 {
        let state = &self.lanes[lane];
        if self.shared.has_one() || state.reserve.has_one() {
            return 0.0;
        }
        let wanted = 1.0 - self.shared.level;
        let unfilled: f64 = self.lanes.iter().map(|lane| lane.reserve.missing()).sum();
        let shared = (wanted * PAST).min(wanted + unfilled);
        if state.reserve.cap < 1.0 {
            return shared;
        }
        let before: f64 = self.lanes[..lane]
            .iter()
            .map(|lane| lane.reserve.missing())
            .sum();
        let own = (before + 1.0 - state.reserve.level) * PAST / (PAST - 1.0);
        shared.min(own)
    }

    fn close(&mut self, now: Duration, wait: Duration) {
        let until = now + wait.min(self.config.longest_wait);
        self.flow.close(now, until, self.config.ramp);
        self.clip(0.0);
        self.shared_grants = 0;
    }

    fn unhinted_wait(&mut self) -> Duration {
        let wait = UNHINTED * 2u32.pow(self.unhinted.min(6));
        self.unhinted += 1;
        wait.min(UNHINTED_MOST)
    }

    /// Leaves at most `most` tokens: what is shared goes first, then the least urgent reserves.
    fn clip(&mut self, most: f64) {
        let mut excess = (self.tokens() - most).max(0.0);
        excess = self.shared.drain(excess);
        for lane in self.lanes.iter_mut().rev() {
            excess = lane.reserve.drain(excess);
        }
    }

    fn tokens(&self) -> f64 {
        let reserves: f64 = self.lanes.iter().map(|lane| lane.reserve.level).sum();
        self.shared.level + reserves
    }

    fn in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.in_flight).sum()
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
