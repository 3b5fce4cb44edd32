//! Tests of the backoff of one object.

use aplomb::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;

fn object(name: &str) -> ObjectRef {
    ObjectRef {
        kind: "CoderProvisioner".into(),
        key: ObjectKey::new(Some("default"), name),
    }
}

fn seconds(many: f64) -> Duration {
    Duration::from_secs_f64(many)
}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a moment")
}

fn rate_limited(since: i64, not_before: i64) -> RateLimited {
    RateLimited {
        since: Time(timestamp(since)),
        endpoint: "create key".to_owned(),
        not_before: Time(timestamp(not_before)),
    }
}

/// The waits of consecutive refusals, each after the previous one has ended.
fn waits(seed: u64, many: usize) -> Vec<Duration> {
    let (gates, who) = (ObjectBackoffs::new(seed), object("a"));
    let mut now = Instant::now();
    let next = |_| {
        let wait = gates.record_refusal(&who, now);
        now += wait;
        wait
    };
    (0..many).map(next).collect()
}

const RANGES: [(f64, f64); 8] = [
    (1.6, 2.4),
    (3.2, 4.8),
    (6.4, 9.6),
    (12.8, 19.2),
    (25.6, 38.4),
    (51.2, 76.8),
    (60.0, 120.0),
    (60.0, 120.0),
];

#[test]
fn every_step_has_its_range_and_uses_all_of_it() {
    let runs: Vec<_> = (0..2000).map(|seed| waits(seed, RANGES.len())).collect();
    for (step, (least, most)) in RANGES.into_iter().enumerate() {
        let drawn = runs.iter().map(|run| run[step].as_secs_f64());
        let (low, high) = drawn.fold((f64::MAX, 0.0_f64), |(low, high), wait| (low.min(wait), high.max(wait)));
        let margin = (most - least) / 50.0;
        assert!(low >= least && low < least + margin, "{step}: {low}");
        assert!(high <= most && high > most - margin, "{step}: {high}");
    }
}

#[test]
fn at_the_cap_no_wait_is_favoured() {
    let exact = (0..500).filter(|seed| waits(*seed, 7)[6] == MAX_DELAY).count();
    assert!(exact < 3, "{exact} of 500 would retry together");
}

#[test]
fn any_other_answer_resets_the_backoff() {
    let (gates, who, now) = (ObjectBackoffs::new(1), object("a"), Instant::now());
    let mut at = now;
    for _ in 0..5 {
        at += gates.record_refusal(&who, at);
    }
    assert!(gates.is_refused(&who));
    gates.record_answer(&who);
    assert!(!gates.is_refused(&who));
    assert_eq!(gates.not_before(&who, None, (now, timestamp(0))), None);
    assert!(gates.record_refusal(&who, at) <= seconds(2.4));
}

#[test]
fn a_second_refusal_of_the_same_moment_is_not_a_second_step() {
    let (gates, who, now) = (ObjectBackoffs::new(1), object("a"), Instant::now());
    let wait = gates.record_refusal(&who, now);
    let soon = now + seconds(0.5);
    assert_eq!(gates.record_refusal(&who, soon), wait - seconds(0.5));
    assert_eq!(gates.not_before(&who, None, (soon, timestamp(0))), Some(now + wait));
    assert!(gates.record_refusal(&who, now + wait) >= seconds(3.2));
}

#[test]
fn one_object_does_not_hold_another() {
    let (gates, now) = (ObjectBackoffs::new(1), Instant::now());
    assert!(gates.record_refusal(&object("a"), now) > Duration::ZERO);
    assert_eq!(gates.not_before(&object("b"), None, (now, timestamp(0))), None);
}

#[test]
fn a_new_process_waits_as_long_as_the_old_one_would_have() {
    let (gates, who, now) = (ObjectBackoffs::new(1), object("a"), Instant::now());
    let until = gates.not_before(&who, Some(&rate_limited(-10, 5)), (now, timestamp(0)));
    // The backoff has lasted three waits: a third one first, and the next is the fourth.
    let wait = until.expect("a wait") - now;
    assert!(wait >= seconds(6.4) && wait <= seconds(9.6), "{wait:?}");
    let wait = gates.record_refusal(&who, now + wait);
    assert!(wait >= seconds(12.8) && wait <= seconds(19.2), "{wait:?}");
}

#[test]
fn a_new_process_begins_at_the_cap_in_an_episode_that_is_an_hour_old() {
    let (gates, who, now) = (ObjectBackoffs::new(1), object("a"), Instant::now());
    let until = gates.not_before(&who, Some(&rate_limited(-3600, -3590)), (now, timestamp(0)));
    let wait = until.expect("a wait") - now;
    assert!(wait >= seconds(60.0) && wait <= MAX_DELAY, "{wait:?}");
}

#[test]
fn an_episode_that_is_over_does_not_close_the_gate_again() {
    let (gates, who, now) = (ObjectBackoffs::new(1), object("a"), Instant::now());
    gates.record_answer(&who);
    let status = rate_limited(-10, 50);
    assert_eq!(gates.not_before(&who, Some(&status), (now, timestamp(0))), None);
}

#[test]
fn a_time_of_another_clock_holds_for_two_minutes_at_most() {
    let (gates, who, now) = (ObjectBackoffs::new(1), object("a"), Instant::now());
    let status = rate_limited(0, 86_400);
    let until = gates.not_before(&who, Some(&status), (now, timestamp(0)));
    assert_eq!(until, Some(now + MAX_DELAY));
}

#[test]
fn an_object_that_is_gone_leaves_nothing() {
    let (gates, who, now) = (ObjectBackoffs::new(1), object("a"), Instant::now());
    assert!(gates.record_refusal(&who, now) > Duration::ZERO);
    gates.remove(&who);
    assert_eq!(gates.not_before(&who, None, (now, timestamp(0))), None);
}

proptest! {
    /// Events at any time, each triggering a check whether the object may call, and a server that
    /// refuses everything.
    #[test]
    fn no_event_makes_more_than_five_attempts_in_thirty_seconds(
        seed in any::<u64>(),
        mut events in prop::collection::vec(0u64..30_000, 0..300),
    ) {
        let (gates, who, begin) = (ObjectBackoffs::new(seed), object("a"), Instant::now());
        events.extend((0..30_000).step_by(10));
        events.sort_unstable();
        let mut attempts = Vec::new();
        for event in events {
            let now = begin + Duration::from_millis(event);
            if gates.not_before(&who, None, (now, timestamp(0))).is_none() {
                attempts.push(event);
                let _ = gates.record_refusal(&who, now);
            }
        }
        prop_assert!(attempts.len() <= 5, "{:?}", attempts);
        prop_assert!(attempts.len() >= 4, "{:?}", attempts);
    }
}
