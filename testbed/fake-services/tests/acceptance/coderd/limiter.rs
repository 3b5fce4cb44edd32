//! The limiter against the formula, stated once more from the arrivals alone.

use std::time::Duration;

use aplomb_fake_services::coderd::limiter::{Key, Level, Limiter};
use jiff::Timestamp;
use tokio::time::Instant;

const PATTERNS: u64 = 100_000;
const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;

fn at(nanosecond: i128) -> Timestamp {
    Timestamp::from_nanosecond(nanosecond).expect("a time")
}

fn key(path: &str) -> Key {
    Key {
        identity: "somebody".to_owned(),
        path: path.to_owned(),
    }
}

/// Requests that count at `now`, from those that were let pass: all of this window, and of the last
/// one the share that the present one has left, rounded half up. In whole numbers, so that no
/// rounding can be shared with the limiter.
fn used(passed: &[i128], now: i128, offset: i128) -> i128 {
    let begin = now - (now - offset).rem_euclid(MINUTE);
    let current = passed.iter().filter(|it| **it >= begin).count();
    let earlier = passed.iter().filter(|it| **it < begin);
    let previous = earlier.filter(|it| **it >= begin - MINUTE).count();
    let left = begin + MINUTE - now;
    let previous = i128::try_from(previous).expect("few");
    let faded = (2 * previous * left + MINUTE).div_euclid(2 * MINUTE);
    faded + i128::try_from(current).expect("few")
}

/// What the headers must say after a request, and whether it passes.
fn expected(passed: &[i128], now: i128, offset: i128, limit: i128) -> (bool, Level) {
    let used = used(passed, now, offset);
    let passes = used < limit;
    let end = now - (now - offset).rem_euclid(MINUTE) + MINUTE;
    let number = |value: i128| i64::try_from(value).expect("small");
    let level = Level {
        limit: number(limit),
        remaining: number(limit - used - i128::from(passes)),
        reset: number(end.div_euclid(SECOND)),
    };
    (passes, level)
}

/// The time until the next arrival: bursts, a steady trickle, and long silences.
fn gap(rng: &mut fastrand::Rng) -> i128 {
    let nanoseconds = match rng.u8(..10) {
        0..=4 => rng.u64(..1_000_000_000),
        5..=7 => rng.u64(..10_000_000_000),
        8 => rng.u64(..90_000_000_000),
        // To the nanosecond on the edge of a window or of half of one.
        _ => rng.u64(..5) * 30_000_000_000,
    };
    i128::from(nanoseconds)
}

fn check_pattern(seed: u64) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    let offset = i128::from(rng.u64(..60_000_000_000));
    let limit = i128::from(rng.u8(1..12));
    let span = Duration::from_nanos(u64::try_from(offset).expect("not negative"));
    let mut limiter = Limiter::new(i64::try_from(limit).expect("small"), span);
    let mut now = 1_767_225_600 * SECOND + offset;
    let mut passed = Vec::new();
    let arrivals = rng.usize(1..24);
    for _ in 0..arrivals {
        now += gap(&mut rng);
        let (passes, level) = expected(&passed, now, offset, limit);
        let got = limiter.take(at(now), &key("/x"));
        let wanted = if passes { Ok(Some(level)) } else { Err(level) };
        assert_eq!(got, wanted, "seed {seed}, arrival at {now}");
        if passes {
            passed.push(now);
        }
    }
    arrivals
}

#[test]
fn it_equals_the_formula_over_100_000_random_arrival_patterns() {
    let begin = Instant::now();
    let arrivals: usize = (0..PATTERNS).map(check_pattern).sum();
    let seconds = begin.elapsed().as_secs_f64();
    println!("{PATTERNS} patterns, {arrivals} arrivals, {seconds:.1} s");
    assert!(arrivals > 1_000_000);
}

#[test]
fn a_wrong_limiter_would_be_seen() {
    // The same arrivals, with refused requests counted: the formula must not agree.
    let mut limiter = Limiter::new(2, Duration::ZERO);
    let now = 1_767_225_600 * SECOND;
    let mut counted = Vec::new();
    for arrival in [0, 1, 2, 3, 91] {
        let now = now + arrival * SECOND;
        let right = expected(&counted, now, 0, 2).0;
        counted.push(now);
        let got = limiter.take(at(now), &key("/x")).is_ok();
        if got != right {
            return;
        }
    }
    panic!("counting refused requests went unnoticed");
}

#[test]
fn keys_do_not_share() {
    let mut limiter = Limiter::new(1, Duration::ZERO);
    let now = at(1_767_225_600 * SECOND);
    assert!(limiter.take(now, &key("/x")).is_ok());
    assert!(limiter.take(now, &key("/y")).is_ok());
    assert!(limiter.take(now, &key("/x")).is_err());
}

#[test]
fn nothing_above_zero_is_no_limit() {
    for limit in [0, -1, -512] {
        let mut limiter = Limiter::new(limit, Duration::ZERO);
        let now = at(1_767_225_600 * SECOND);
        for _ in 0..1000 {
            assert_eq!(limiter.take(now, &key("/x")), Ok(None));
        }
        assert_eq!(limiter.fresh(now), None);
    }
}

#[test]
fn capacity_returns_shortly_after_the_reset_and_then_at_its_rate() {
    let mut limiter = Limiter::new(60, Duration::ZERO);
    let begin = 1_767_225_600 * SECOND;
    for _ in 0..60 {
        limiter.take(at(begin), &key("/x")).expect("it passes");
    }
    let mut passed = Vec::new();
    for millisecond in 0..=5_000 {
        let now = begin + MINUTE + millisecond * 1_000_000;
        if limiter.take(at(now), &key("/x")).is_ok() {
            passed.push(millisecond);
        }
    }
    assert_eq!(passed, [501, 1501, 2501, 3501, 4501]);
}
