//! Tests of the ledger: turns, closings and which callers are woken.

use super::*;
use crate::budget::hint::WindowHeaders;

const PATH: &str = "/keys";

fn second() -> Duration {
    Duration::from_secs(1)
}

fn answer(status: u16, limit: u32, remaining: i64) -> Hint {
    Hint {
        status,
        reading: Some(WindowHeaders {
            limit,
            remaining,
            reset: 1_000_050,
        }),
        date: Some(1_000_020),
        retry_after: Some(60 * second()),
    }
}

fn unhinted(status: u16, retry_after: Option<Duration>) -> Hint {
    Hint {
        status,
        reading: None,
        date: None,
        retry_after,
    }
}

fn wait_for_turn(ledger: &mut Ledger<u32>, who: u32, now: Instant) -> Option<(Duration, bool)> {
    match ledger.turn(&who, CallPriority::Write, PATH, now).0 {
        Step::Now => None,
        Step::Later { until, limited } => Some((until - now, limited)),
    }
}

/// A ledger that knows its limit, and the moment.
fn known_ledger(limit: u32) -> (Ledger<u32>, Instant) {
    let (mut ledger, now) = (Ledger::default(), Instant::now() + 1000 * second());
    assert_eq!(wait_for_turn(&mut ledger, 0, now), None);
    let first = answer(200, limit, i64::from(limit) - 1);
    assert!(ledger.record_answer(PATH, &first, now, now).is_empty());
    (ledger, now)
}

#[test]
fn waiters_get_different_times_in_order_of_arrival() {
    let (mut ledger, now) = known_ledger(5);
    for who in 1..5 {
        assert_eq!(wait_for_turn(&mut ledger, who, now), None, "{who}");
        ledger.record_answer(PATH, &answer(200, 5, 4 - i64::from(who)), now, now);
    }
    let waits: Vec<_> = (5..8)
        .map(|who| wait_for_turn(&mut ledger, who, now).expect("full").0)
        .collect();
    assert!(waits.is_sorted() && waits[0] + 11 * second() < waits[1], "{waits:?}");
    // Asking again changes nothing.
    assert_eq!(wait_for_turn(&mut ledger, 7, now), Some((waits[2], false)));
    assert_eq!(wait_for_turn(&mut ledger, 5, now), Some((waits[0], false)));
    assert_eq!(wait_for_turn(&mut ledger, 5, now + waits[0]), None);
}

#[test]
fn a_refusal_closes_the_path_until_the_window_ends() {
    let (mut ledger, now) = known_ledger(100);
    assert_eq!(wait_for_turn(&mut ledger, 1, now), None);
    ledger.record_answer(PATH, &answer(429, 100, 0), now, now);
    let (wait, limited) = wait_for_turn(&mut ledger, 1, now).expect("closed");
    assert!(limited && wait > 30 * second() && wait < 33 * second(), "{wait:?}");
    assert_eq!(wait_for_turn(&mut ledger, 1, now + wait), None);
}

#[test]
fn a_refusal_without_a_window_closes_it_for_its_retry_after_or_doubles() {
    let (mut ledger, mut now) = (Ledger::default(), Instant::now());
    let mut closes = |hint: &Hint| {
        assert_eq!(wait_for_turn(&mut ledger, 1, now), None);
        ledger.record_answer(PATH, hint, now, now);
        let (wait, limited) = wait_for_turn(&mut ledger, 1, now).expect("closed");
        assert!(limited);
        now += wait;
        wait.as_secs()
    };
    assert_eq!(closes(&unhinted(429, Some(7 * second()))), 7);
    let doubled: Vec<_> = (0..8).map(|_| closes(&unhinted(429, None))).collect();
    assert_eq!(doubled, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn another_path_is_another_bucket() {
    let (mut ledger, now) = known_ledger(1);
    assert!(wait_for_turn(&mut ledger, 1, now).is_some());
    let (step, _) = ledger.turn(&1, CallPriority::Delete, "/keys/one", now);
    assert_eq!(step, Step::Now);
}

#[test]
fn a_path_without_users_is_forgotten() {
    let (mut ledger, now) = known_ledger(5);
    assert_eq!(ledger.levels(now).count(), 1);
    let much_later = now + 3 * WINDOW;
    ledger.turn(&1, CallPriority::Read, "/other", much_later);
    let names: Vec<_> = ledger.levels(much_later).map(|(name, _)| name).collect();
    assert_eq!(names, ["/other"]);
}

#[test]
fn a_path_with_waiters_is_not_forgotten() {
    let (mut ledger, now) = known_ledger(1);
    assert!(wait_for_turn(&mut ledger, 1, now).is_some());
    ledger.turn(&2, CallPriority::Read, "/other", now + 3 * WINDOW);
    assert_eq!(ledger.levels(now).count(), 2);
}

#[test]
fn a_turn_that_is_not_taken_goes_to_the_next() {
    let (mut ledger, now) = known_ledger(1);
    let (first, _) = wait_for_turn(&mut ledger, 1, now).expect("full");
    let (second_wait, _) = wait_for_turn(&mut ledger, 2, now).expect("full");
    assert!(second_wait > first);
    // The first never comes; the second does, at its time, and is the first in the queue.
    assert_eq!(wait_for_turn(&mut ledger, 2, now + second_wait), None);
}

fn order(queue: &CallQueue<u32>, now: Instant) -> Vec<u32> {
    queue.call_order(now).map(|ticket| ticket.key).collect()
}

#[test]
fn deletions_go_first_and_no_lane_starves() {
    let now = Instant::now();
    let mut queue = CallQueue::default();
    for who in 0..10 {
        queue.push(&(who + 200), CallPriority::Read, now);
        queue.push(&(who + 100), CallPriority::Write, now);
        queue.push(&who, CallPriority::Delete, now);
    }
    let begin = [0, 1, 2, 100, 3, 4, 5, 200, 6, 7, 8, 101, 9, 102, 103, 201];
    assert_eq!(order(&queue, now)[..begin.len()], begin);
    for who in begin {
        assert_eq!(queue.call_order(now).next().map(|first| first.key), Some(who));
        queue.remove_granted(&who);
    }
    assert_eq!(queue.len(), 14);
}

#[test]
fn a_repeated_request_keeps_the_place_and_a_different_one_does_not() {
    let now = Instant::now();
    let mut queue = CallQueue::default();
    for who in [1, 2, 3, 1] {
        queue.push(&who, CallPriority::Write, now);
    }
    assert_eq!(order(&queue, now), [1, 2, 3]);
    queue.push(&1, CallPriority::Read, now);
    assert_eq!(order(&queue, now), [2, 3, 1]);
    assert_eq!(queue.count_ahead(&1, now), 2);
}

#[test]
fn an_absent_caller_is_skipped_and_keeps_its_place() {
    let now = Instant::now();
    let mut queue = CallQueue::default();
    queue.push(&1, CallPriority::Write, now);
    queue.push(&2, CallPriority::Write, now);
    let later = now + TURN_GRACE + Duration::from_millis(1);
    queue.set_wake_time(&2, later);
    assert_eq!(order(&queue, later), [2]);
    queue.push(&1, CallPriority::Write, later);
    assert_eq!(order(&queue, later), [1, 2]);
    queue.sweep(now + WAIT_EXPIRY);
    assert_eq!(queue.len(), 2);
    queue.sweep(later + WAIT_EXPIRY + Duration::from_millis(1));
    assert_eq!(queue.len(), 0);
}
