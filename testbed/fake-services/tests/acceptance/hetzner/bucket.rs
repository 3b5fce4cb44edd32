//! The bucket alone, against a plain count of what it should hold.

use aplomb_fake_services::hcloud::bucket::Bucket;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_767_225_600_000 + milliseconds).expect("in range")
}

proptest! {
    #[test]
    fn it_never_holds_more_than_its_limit_and_says_when_it_is_full(
        limit in 1_u64..50,
        per_second in prop::sample::select(vec![0.5_f64, 1.0, 2.0, 10.0]),
        pauses in prop::collection::vec(0_i64..5_000, 1..200),
        drain: bool,
    ) {
        let mut bucket = Bucket::new(limit, per_second, drain);
        let mut now = 0;
        for pause in pauses {
            now += pause;
            let before = bucket.peek(at(now)).remaining;
            let taken = bucket.take(at(now));
            prop_assert_eq!(taken.is_ok(), before > 0);
            let level = taken.unwrap_or_else(|level| level);
            prop_assert!(level.remaining < limit);
            let missing = level.limit - level.remaining;
            #[allow(clippy::cast_precision_loss, reason = "at most 50")]
            let wait = SignedDuration::from_secs_f64(missing as f64 / per_second);
            let full = at(now).checked_add(wait).expect("in range");
            prop_assert_eq!(level.reset, full.as_second());
            // It is full when it says so: Reset counts from the arrival, so it is never early.
            let later = Timestamp::from_second(level.reset + 1).expect("in range");
            prop_assert_eq!(bucket.clone().peek(later).remaining, limit);
        }
    }

    #[test]
    fn it_lets_in_no_more_than_the_limit_and_what_refilled(
        limit in 1_u64..50,
        pauses in prop::collection::vec(0_i64..3_000, 1..300),
    ) {
        let mut bucket = Bucket::new(limit, 1.0, false);
        let (mut now, mut accepted) = (0, 0);
        for pause in pauses {
            now += pause;
            accepted += u64::from(bucket.take(at(now)).is_ok());
        }
        let refilled = u64::try_from(now).expect("positive") / 1000;
        prop_assert!(accepted <= limit + refilled);
    }
}

#[test]
fn a_token_comes_back_every_tick_and_not_earlier() {
    let mut bucket = Bucket::new(2, 1.0, false);
    assert!(bucket.take(at(0)).is_ok());
    assert!(bucket.take(at(0)).is_ok());
    assert!(bucket.take(at(999)).is_err());
    assert!(bucket.take(at(1_000)).is_ok());
    assert!(bucket.take(at(1_999)).is_err());
    assert!(bucket.take(at(2_000)).is_ok());
}

#[test]
fn a_refusal_costs_what_had_refilled_only_where_that_is_switched_on() {
    for (drain, accepted) in [(false, true), (true, false)] {
        let mut bucket = Bucket::new(1, 1.0, drain);
        assert!(bucket.take(at(0)).is_ok());
        assert!(bucket.take(at(900)).is_err());
        assert_eq!(bucket.take(at(1_100)).is_ok(), accepted);
        assert!(bucket.take(at(2_200)).is_ok());
    }
}

#[test]
fn a_captured_refusal_has_the_same_figures() {
    // Date 1625768837, Remaining 0, Reset 1625772437.
    let now = Timestamp::from_second(1_625_768_837).expect("in range");
    let mut bucket = Bucket::new(3600, 1.0, false);
    bucket.set(now, 0);
    let level = bucket.take(now).expect_err("it is empty");
    assert_eq!((level.remaining, level.reset), (0, 1_625_772_437));
}
