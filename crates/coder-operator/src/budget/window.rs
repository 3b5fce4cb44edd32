//! A mirror of coderd's limiter for one path: how much of it is spent, at most.
//!
//! The limiter keeps a count for the current and for the previous minute. Its rate is the current count
//! and what is left of the previous one as the minute passes; it refuses a call where the rounded rate and
//! one more exceed the limit, and does not count what it refuses. Every number here is an upper bound of
//! the server's: calls on their way count in full, and a window ends when it has surely ended.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::edge::{WINDOW, WindowEdge};
use super::hint::{Hint, WindowHeaders};

/// For how long others who were seen to spend here are expected to go on.
const SHARED_FOR: Duration = Duration::from_secs(120);
/// How far ahead a forecast looks, in windows.
const FORECAST_WINDOWS: usize = 20;
/// For sums of fractions.
const EPSILON: f64 = 1e-6;

/// What is known of the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Limit {
    /// No answer has come yet.
    #[default]
    Unknown,
    /// There is none.
    None,
    /// Calls a minute.
    PerMinute(u32),
}

/// Calls that the server has counted in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    own: f64,
    others: f64,
}

/// The mirror of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlidingWindow {
    limit: Limit,
    /// By the second of the server's clock in which their window ends.
    spent: BTreeMap<i64, Spent>,
    in_flight: u32,
    /// Calls whose answer never came, where no window was known yet.
    unplaced_calls: u32,
    /// Until when others are expected to spend here too.
    shared_until: Option<Instant>,
}

impl SlidingWindow {
    /// How many calls may go at once.
    pub(crate) fn room(&self, edge: Option<&WindowEdge>, now: Instant) -> usize {
        let one = usize::from(self.in_flight == 0);
        match (self.limit, edge) {
            (Limit::Unknown, _) | (Limit::PerMinute(_), None) => one,
            (Limit::None, _) => usize::MAX,
            (Limit::PerMinute(limit), Some(edge)) => {
                let room = calls_below_limit(limit, self.max_rate(edge, now));
                if self.is_shared(now) { room.min(one) } else { room }
            }
        }
    }

    /// When the `n`-th next call may go, if all before it go as soon as they may. `None` where only an
    /// answer can tell.
    pub(crate) fn nth_call_at(&self, edge: Option<&WindowEdge>, n: usize, now: Instant) -> Option<Instant> {
        let (Limit::PerMinute(limit), Some(edge)) = (self.limit, edge) else {
            return None;
        };
        let when = self.forecast_nth(edge, limit, n, now);
        (when > now).then_some(when)
    }

    /// A call is on its way.
    pub(crate) fn record_sent(&mut self) {
        self.in_flight += 1;
    }

    /// It was not sent after all, or was not counted.
    pub(crate) fn record_returned(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// No answer came. It may arrive late, so it counts in the latest window that it can be in.
    pub(crate) fn record_lost(&mut self, edge: Option<&WindowEdge>, now: Instant) {
        self.record_returned();
        match edge {
            None => self.unplaced_calls += 1,
            Some(edge) => self.add_calls(edge.current_reset(now) + window_seconds(), 1.0),
        }
    }

    /// An answer came at `now` to a call sent at `sent`. `edge` has learned from it already.
    pub(crate) fn record_answer(&mut self, edge: Option<&WindowEdge>, hint: &Hint, sent: Instant, now: Instant) {
        let (Some(reading), Some(edge)) = (hint.reading, edge) else {
            if hint.is_unlimited() {
                self.limit = Limit::None;
            }
            match hint.is_uncounted() || self.limit == Limit::None {
                true => self.record_returned(),
                false => self.record_lost(edge, now),
            }
            return;
        };
        self.record_returned();
        self.limit = Limit::PerMinute(reading.limit);
        if self.unplaced_calls > 0 {
            self.add_calls(reading.reset + window_seconds(), f64::from(self.unplaced_calls));
            self.unplaced_calls = 0;
        }
        if !hint.is_limited() {
            self.add_calls(reading.reset, 1.0);
        }
        self.apply_headers(edge, &reading, sent, now);
        if hint.is_limited() {
            self.shared_until = Some(now + SHARED_FOR);
        }
        self.prune(edge, now);
    }

    /// Whether nothing of it matters any more.
    pub(crate) fn is_idle(&mut self, edge: Option<&WindowEdge>, now: Instant) -> bool {
        if let Some(edge) = edge {
            self.prune(edge, now);
        }
        self.spent.is_empty() && self.in_flight == 0 && self.unplaced_calls == 0
    }

    /// Calls on their way.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Calls a minute, if there is a limit and it is known.
    pub(crate) fn limit(&self) -> Option<u32> {
        match self.limit {
            Limit::PerMinute(limit) => Some(limit),
            _ => None,
        }
    }

    fn is_shared(&self, now: Instant) -> bool {
        self.shared_until.is_some_and(|until| now < until)
    }

    fn add_calls(&mut self, reset: i64, calls: f64) {
        self.spent.entry(reset).or_default().own += calls;
    }

    /// What the server says against what is mirrored. If it counts more than all our calls can explain,
    /// others spend too: their calls are taken to be of the current window, where they weigh longest. If
    /// it counts less and nothing of ours is on its way, they were fewer than was thought.
    fn apply_headers(&mut self, edge: &WindowEdge, reading: &WindowHeaders, sent: Instant, now: Instant) {
        let counted = f64::from(reading.limit) - reading.remaining as f64;
        let (least, most) = (counted - 0.5, counted + 0.5);
        let (then, mirrored) = (self.max_rate(edge, sent), self.max_rate(edge, now));
        let others = &mut self.spent.entry(reading.reset).or_default().others;
        if least > then + EPSILON {
            let unexplained = most - mirrored;
            *others += unexplained;
            if unexplained >= 1.0 {
                self.shared_until = Some(now + SHARED_FOR);
            }
        } else if most < mirrored && self.in_flight == 0 {
            *others = (*others - (mirrored - most)).max(0.0);
        }
    }

    fn prune(&mut self, edge: &WindowEdge, now: Instant) {
        self.spent
            .retain(|reset, _| window_weight(edge.latest_end(*reset), now) > 0.0);
    }

    /// The server's rate, at most.
    fn max_rate(&self, edge: &WindowEdge, at: Instant) -> f64 {
        let past = self.spent.iter().map(|(reset, spent)| {
            let calls = spent.own + spent.others;
            calls * window_weight(edge.latest_end(*reset), at)
        });
        past.sum::<f64>() + f64::from(self.in_flight)
    }

    fn forecast_nth(&self, edge: &WindowEdge, limit: u32, n: usize, now: Instant) -> Instant {
        let spent = self.spent.iter();
        let mut loads: Vec<(Instant, f64)> = spent
            .map(|(reset, spent)| (edge.latest_end(*reset), spent.own + spent.others))
            .collect();
        let (mut begin, mut left) = (now, n);
        loads.push((edge.latest_end(edge.current_reset(now)), f64::from(self.in_flight)));
        for _ in 0..FORECAST_WINDOWS {
            let end = edge.latest_end(edge.current_reset(begin));
            let load = |at| loads.iter().map(|(end, calls)| calls * window_weight(*end, at)).sum();
            let before_end = calls_below_limit(limit, load(end));
            if left <= before_end {
                return earliest_instant(begin, end, |at| left <= calls_below_limit(limit, load(at)));
            }
            loads.push((end, before_end as f64));
            left -= before_end;
            begin = end;
        }
        begin
    }
}

/// How many more calls a limiter takes whose rate is `load`.
fn calls_below_limit(limit: u32, load: f64) -> usize {
    let room = (f64::from(limit) + 0.5 - load - EPSILON).ceil() - 1.0;
    // Negative where others have overspent; a cast would wrap only for a limit beyond any.
    room.max(0.0) as usize
}

/// What a call still counts whose window ends at `end`.
fn window_weight(end: Instant, at: Instant) -> f64 {
    let past = at.saturating_duration_since(end).as_secs_f64();
    (1.0 - past / WINDOW.as_secs_f64()).max(0.0)
}

/// The first moment of a span, by the millisecond, from which something holds that holds at its end.
fn earliest_instant(begin: Instant, end: Instant, holds: impl Fn(Instant) -> bool) -> Instant {
    if holds(begin) {
        return begin;
    }
    let millisecond = Duration::from_millis(1);
    let (mut low, mut high) = (begin, end);
    while high - low > millisecond {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

fn window_seconds() -> i64 {
    // Sixty.
    WINDOW.as_secs() as i64
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
