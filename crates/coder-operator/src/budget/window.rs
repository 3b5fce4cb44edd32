//! A mirror of coderd's limiter for one path: how much of it is spent, at most.
//!
//! The limiter keeps a count for the current and for the previous minute. Its rate is the current count
//! and what is left of the previous one as the minute passes; it refuses a call where the rounded rate and
//! one more exceed the limit, and does not count what it refuses. Every number here is an upper bound of
//! the server's: calls on their way count in full, and a window ends when it has surely ended.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

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

/// How long a window of the limiter is.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// For what is finer than a clock that two programs read.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(5);
/// Two clocks drift apart by no more than one part in this many.
const DRIFT_DIVISOR: u32 = 5000;

/// The end of one window; all others lie whole seconds from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WindowEdge {
    reset: i64,
    latest: Instant,
    learned: Instant,
}

impl WindowEdge {
    /// What an answer says that came at `now` to a call sent at `sent`: the window ends within second
    /// `reset` of a clock that showed second `date` in between.
    pub(crate) fn learn(known: Option<Self>, reset: i64, date: Option<i64>, sent: Instant, now: Instant) -> Self {
        let (earliest, latest) = end_bounds(reset, date, sent, now);
        let before = known.map(|edge| edge.latest_end(reset));
        let latest = match before {
            // A bound below what is possible now is none: the server's clock was set, or it is another
            // server.
            Some(before) if before >= earliest => before.min(latest),
            _ => latest,
        };
        Self {
            reset,
            latest,
            learned: now,
        }
    }

    /// When the window that ends within second `reset` of the server's clock has surely ended.
    /// The longer ago it was learned, the later.
    pub(crate) fn latest_end(&self, reset: i64) -> Instant {
        let latest = add_seconds(self.latest, reset.saturating_sub(self.reset));
        latest + latest.saturating_duration_since(self.learned) / DRIFT_DIVISOR
    }

    /// The second of the server's clock in which the window ends that has not surely ended at `now`.
    pub(crate) fn current_reset(&self, now: Instant) -> i64 {
        let behind = now.saturating_duration_since(self.latest).as_secs();
        let ahead = self.latest.saturating_duration_since(now).as_secs();
        let window = WINDOW.as_secs();
        if now < self.latest {
            return self.reset - to_i64(ahead / window * window);
        }
        self.reset + to_i64((behind / window + 1) * window)
    }
}

/// The earliest and the latest end that the answer leaves possible. The call was counted in the window, so
/// it ends after the call was sent and within a window's length of the answer.
fn end_bounds(reset: i64, date: Option<i64>, sent: Instant, now: Instant) -> (Instant, Instant) {
    let loose = (sent, now + WINDOW + CLOCK_TOLERANCE);
    let Some(left) = date.map(|date| reset.saturating_sub(date)) else {
        return loose;
    };
    let earliest = add_seconds(sent, left - 1).max(loose.0);
    let latest = (add_seconds(now, left + 1) + CLOCK_TOLERANCE).min(loose.1);
    // A date that contradicts the window it came with comes from another system, such as a proxy.
    if (-1..=61).contains(&left) && earliest <= latest {
        (earliest, latest)
    } else {
        loose
    }
}

/// Some seconds from a moment, within what a clock can hold.
fn add_seconds(moment: Instant, seconds: i64) -> Instant {
    const MAX_OFFSET_SECONDS: u64 = 86_400 * 365;
    let distance = Duration::from_secs(seconds.unsigned_abs().min(MAX_OFFSET_SECONDS));
    match seconds {
        0.. => moment + distance,
        _ => moment.checked_sub(distance).unwrap_or(moment),
    }
}

fn to_i64(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
