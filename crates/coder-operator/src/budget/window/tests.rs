//! The mirror against what the server says.

use super::*;

/// A window that ends thirty seconds after the answer to its first call, which took no time.
struct Scene {
    window: SlidingWindow,
    edge: WindowEdge,
    now: Instant,
}

const RESET: i64 = 1_000_050;

fn hint(status: u16, limit: u32, remaining: i64, reset: i64) -> Hint {
    Hint {
        status,
        reading: Some(WindowHeaders {
            limit,
            remaining,
            reset,
        }),
        date: None,
        retry_after: None,
    }
}

fn fixture(limit: u32, remaining: i64) -> Scene {
    let now = Instant::now() + Duration::from_secs(1000);
    let date = RESET - 29;
    let edge = WindowEdge::learn(None, RESET, Some(date), now, now);
    let mut window = SlidingWindow::default();
    window.record_sent();
    let first = hint(200, limit, remaining, RESET);
    window.record_answer(Some(&edge), &first, now, now);
    Scene { window, edge, now }
}

impl Scene {
    fn room(&self, after: f64) -> usize {
        let at = self.now + Duration::from_secs_f64(after);
        self.window.room(Some(&self.edge), at)
    }

    fn call(&mut self, status: u16, remaining: i64) {
        self.window.record_sent();
        let limit = self.window.limit().expect("a limit");
        let heard = hint(status, limit, remaining, RESET);
        let edge = self.edge;
        self.window.record_answer(Some(&edge), &heard, self.now, self.now);
    }

    /// Seconds until the `n`-th next call.
    fn at(&self, n: usize) -> Option<f64> {
        let at = self.window.nth_call_at(Some(&self.edge), n, self.now)?;
        Some((at - self.now).as_secs_f64())
    }
}

#[test]
fn one_call_goes_before_anything_is_known() {
    let mut window = SlidingWindow::default();
    let now = Instant::now();
    assert_eq!(window.room(None, now), 1);
    window.record_sent();
    assert_eq!(window.room(None, now), 0);
    assert_eq!(window.nth_call_at(None, 1, now), None);
}

#[test]
fn a_full_window_opens_as_the_formula_predicts() {
    let mut scene = fixture(5, 4);
    for left in (0..4).rev() {
        scene.call(200, left);
    }
    assert_eq!(scene.room(0.0), 0);
    // A tenth of the next minute, then every fifth of it.
    for (n, expected) in [(1, 36.0), (2, 48.0), (3, 60.0), (5, 84.0), (6, 96.0)] {
        let at = scene.at(n).expect("a moment");
        assert!((at - expected).abs() < 0.1, "{n}: {at}");
    }
    assert_eq!((scene.room(35.5), scene.room(36.5)), (0, 1));
    assert_eq!(scene.room(200.0), 5);
}

#[test]
fn calls_on_their_way_count_in_full() {
    let mut scene = fixture(5, 4);
    for room in [3, 2, 1, 0] {
        scene.window.record_sent();
        assert_eq!(scene.room(0.0), room);
    }
    scene.window.record_returned();
    assert_eq!(scene.room(0.0), 1);
}

#[test]
fn a_call_without_an_answer_counts_for_a_window_longer() {
    let mut alone = fixture(1, 0);
    alone.window.spent.clear();
    alone.window.record_sent();
    let edge = alone.edge;
    alone.window.record_lost(Some(&edge), alone.now);
    assert_eq!((alone.room(115.0), alone.room(122.0)), (0, 1));
}

#[test]
fn what_others_spend_is_believed_and_makes_us_go_one_by_one() {
    let mut shared = fixture(100, 39);
    assert_eq!(shared.room(0.0), 1);
    shared.window.record_sent();
    assert_eq!(shared.room(0.0), 0);
    assert_eq!(shared.window.limit(), Some(100));
    assert!(shared.window.max_rate(&shared.edge, shared.now) >= 61.0);
    // They were fewer than was thought.
    shared.window.record_returned();
    shared.call(200, 68);
    let load = shared.window.max_rate(&shared.edge, shared.now);
    assert!((load - 32.5).abs() < 0.01, "{load}");
}

#[test]
fn a_refused_call_is_not_counted() {
    let mut full = fixture(5, 4);
    for left in (0..4).rev() {
        full.call(200, left);
    }
    let before = full.window.max_rate(&full.edge, full.now);
    full.call(429, 0);
    assert_eq!(full.window.max_rate(&full.edge, full.now), before);
}

#[test]
fn without_limit_headers_there_is_no_limit() {
    let mut window = SlidingWindow::default();
    let now = Instant::now();
    window.record_sent();
    let silent = Hint {
        reading: None,
        ..hint(200, 1, 1, 1)
    };
    window.record_answer(None, &silent, now, now);
    assert_eq!(window.room(None, now), usize::MAX);
}

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
