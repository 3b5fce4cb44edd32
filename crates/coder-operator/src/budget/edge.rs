//! When a window of the server's limiter ends, on our own monotonic clock: an upper bound.
//!
//! The server tells the second in which its window ends, with the fraction cut off, and the second in
//! which it answers. Neither its clock nor ours is trusted to agree with the other. A later end than the
//! true one only makes us slower, so of all ends that an answer leaves possible the latest is assumed, and
//! the earliest of those over several answers: each of them is a bound.

use std::time::Duration;

use tokio::time::Instant;

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
mod tests {
    use super::*;

    /// A bound after a time is that bound and what two clocks may drift apart until then.
    fn assert_end(edge: WindowEdge, reset: i64, now: Instant, after: f64) {
        let after = seconds(after) + CLOCK_TOLERANCE;
        assert_eq!(edge.latest_end(reset), now + after + after / DRIFT_DIVISOR);
    }

    fn seconds(many: f64) -> Duration {
        Duration::from_secs_f64(many)
    }

    fn morning() -> Instant {
        Instant::now() + seconds(500.0)
    }

    #[test]
    fn the_first_answer_bounds_it_within_two_seconds_and_the_way() {
        let sent = morning();
        let now = sent + seconds(0.2);
        let edge = WindowEdge::learn(None, 1_000_050, Some(1_000_020), sent, now);
        assert_end(edge, 1_000_050, now, 31.0);
    }

    #[test]
    fn the_first_answer_of_the_next_window_tightens_it() {
        let sent = morning();
        let edge = WindowEdge::learn(None, 1_000_050, Some(1_000_020), sent, sent);
        let later = sent + seconds(30.3);
        let edge = WindowEdge::learn(Some(edge), 1_000_110, Some(1_000_050), later, later);
        assert_end(edge, 1_000_110, later, 60.0);
    }

    #[test]
    fn without_a_date_it_is_a_window_away() {
        let now = morning();
        assert_end(WindowEdge::learn(None, 7, None, now, now), 7, now, 60.0);
        assert_end(WindowEdge::learn(None, 7, Some(99_999), now, now), 7, now, 60.0);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_it_later_again() {
        let now = morning();
        let edge = WindowEdge::learn(None, 1_000_050, Some(1_000_040), now, now);
        let again = WindowEdge::learn(Some(edge), 1_000_050, Some(1_000_000), now, now);
        assert_end(again, 1_000_050, now, 51.0);
    }

    #[test]
    fn the_current_window_is_the_one_that_has_not_surely_ended() {
        let now = morning();
        let edge = WindowEdge::learn(None, 1_000_050, Some(1_000_020), now, now);
        assert_eq!(edge.current_reset(now), 1_000_050);
        assert_eq!(edge.current_reset(now + seconds(30.9)), 1_000_050);
        assert_eq!(edge.current_reset(now + seconds(31.1)), 1_000_110);
        assert_eq!(edge.current_reset(now + seconds(91.1)), 1_000_170);
        assert_eq!(edge.current_reset(now - seconds(30.0)), 999_990);
    }
}
