//! Properties of the backoff, with random events.

use proptest::prelude::*;

use super::*;
use crate::queue::{FairQueue, Lane, NextRun, QueueConfig, RunReason, WaitPolicy};

const CLASS: ErrorClass = ErrorClass::Unavailable;

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn backoff(curve: BackoffPolicy) -> Backoff {
    Backoff::new(Arc::new(BackoffPolicies::default().with_policy(CLASS, curve)))
}

fn jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![Just(Jitter::None), Just(Jitter::Full)]
}

prop_compose! {
    fn curve()(
        base in 0_u64..5_000, factor in 0.5_f64..10.0, cap in 0_u64..100_000,
        floor in 0_u64..2_000, decay in 0_u64..600_000, jitter in jitter(),
    ) -> BackoffPolicy {
        BackoffPolicy { base: millis(base), factor, cap: millis(cap), floor: millis(floor), jitter, decay: millis(decay) }
    }
}

proptest! {
    #[test]
    fn a_wait_is_never_above_the_cap_and_never_below_the_floor(curve in curve(), failures in 0_u32.., seed: u64) {
        let wait = curve.sample(failures, &mut fastrand::Rng::with_seed(seed));
        prop_assert!(wait <= curve.cap);
        prop_assert!(wait >= curve.floor.min(curve.cap));
    }

    #[test]
    fn the_mean_wait_never_shrinks_with_failures(curve in curve(), failures in 0_u32..2_000) {
        // Draws are uniform, so the mean is the middle of the range.
        let mean = |failures| { let (shortest, longest) = curve.range(failures); shortest + longest };
        prop_assert!(mean(failures) <= mean(failures + 1));
    }

    #[test]
    fn draws_are_uniform_over_their_range(failures in 1_u32..12, seed: u64) {
        let curve = BackoffPolicy::default();
        let mut rng = fastrand::Rng::with_seed(seed);
        let draws = 2_000_u32;
        let mean = (0..draws).map(|_| curve.sample(failures, &mut rng)).sum::<Duration>() / draws;
        let (shortest, longest) = curve.range(failures);
        let (middle, width) = ((shortest + longest) / 2, longest - shortest);
        prop_assert!(mean.abs_diff(middle) < width / 20, "{mean:?} is not near {middle:?}");
    }

    #[test]
    fn events_inside_a_window_neither_count_nor_extend_it(seed: u64, gaps in prop::collection::vec(0_u64..8, 1_000)) {
        // The window is longer than the whole storm.
        let curve = BackoffPolicy { base: millis(20_000), floor: millis(8_000), ..BackoffPolicy::default() };
        let mut backoff = backoff(curve);
        let mut rng = fastrand::Rng::with_seed(seed);
        let first = backoff.record_failure(CLASS, RunCause::Event, Duration::ZERO, &mut rng);
        let mut now = 0;
        for gap in gaps {
            now += gap;
            prop_assert_eq!(backoff.record_failure(CLASS, RunCause::Event, millis(now), &mut rng), first);
        }
        prop_assert_eq!(backoff.failures(CLASS), 1);
    }

    #[test]
    fn no_storm_of_events_buys_more_silence_than_it_lasted(factor in 1.0_f64..4.0, gaps in prop::collection::vec(0_u64..50, 1..500)) {
        let curve = BackoffPolicy { base: millis(5), factor, cap: millis(1_000_000), floor: Duration::ZERO, jitter: Jitter::None, decay: Duration::MAX };
        let mut backoff = backoff(curve);
        let mut rng = fastrand::Rng::with_seed(0);
        let mut now = 0;
        for gap in gaps {
            now += gap;
            let deadline = backoff.record_failure(CLASS, RunCause::Event, millis(now), &mut rng);
            let silence = deadline.saturating_sub(millis(now));
            let earned = millis(now).mul_f64(factor - 1.0) + curve.base;
            prop_assert!(silence <= earned + Duration::from_micros(1), "{silence:?} after {now} ms");
        }
    }
}

#[test]
fn a_thousand_event_driven_failures_in_four_seconds_leave_the_deadline_where_it_was() {
    let curve = BackoffPolicy {
        base: millis(5_000),
        jitter: Jitter::None,
        ..BackoffPolicy::default()
    };
    let (mut backoff, mut rng) = (backoff(curve), fastrand::Rng::with_seed(1));
    let first = backoff.record_failure(CLASS, RunCause::Due, Duration::ZERO, &mut rng);
    for n in 1..=1_000 {
        let deadline = backoff.record_failure(CLASS, RunCause::Event, millis(4 * n), &mut rng);
        assert_eq!(deadline, first);
    }
    let due = backoff.record_failure(CLASS, RunCause::Due, first, &mut rng);
    assert_eq!(due - first, millis(10_000), "the second failure that counts");
}

#[test]
fn a_queue_lets_such_a_storm_run_the_key_once() {
    let curve = BackoffPolicy::constant(millis(5_000));
    let (mut backoff, mut rng) = (backoff(curve), fastrand::Rng::with_seed(1));
    let mut queue = FairQueue::new(QueueConfig::default());
    let mut runs = 0;
    for n in 0..=1_000 {
        let now = millis(4 * n);
        queue.push(&"a", Lane::Input, RunReason::Input("Pod"), now);
        while let Some(dispatch) = queue.pop(now) {
            runs += 1;
            let next = NextRun::Scheduled {
                due: backoff.record_failure(CLASS, dispatch.by, now, &mut rng),
                lane: Lane::Retry,
                reason: RunReason::Retry(CLASS),
                hold: WaitPolicy::OneEvent,
            };
            queue.complete(dispatch.ticket, next, now);
        }
    }
    assert_eq!(runs, 2, "the first failure, and one event inside its window");
    assert_eq!(queue.next_due(millis(4_000)), Some(millis(5_000)));
}

#[test]
fn one_success_of_the_class_resets_it_and_no_other() {
    let mut backoff = backoff(BackoffPolicy::default());
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..5 {
        backoff.record_failure(CLASS, RunCause::Due, Duration::ZERO, &mut rng);
        backoff.record_failure(ErrorClass::Fault, RunCause::Due, Duration::ZERO, &mut rng);
    }
    backoff.record_success(CLASS);
    assert_eq!(backoff.failures(CLASS), 0);
    assert_eq!(backoff.failures(ErrorClass::Fault), 5);
    backoff.clear();
    assert!(backoff.is_clear());
}

#[test]
fn failures_decay_with_time() {
    let decay = Duration::from_secs(60);
    let mut backoff = backoff(BackoffPolicy {
        decay,
        ..BackoffPolicy::default()
    });
    let mut rng = fastrand::Rng::with_seed(1);
    let mut now = Duration::ZERO;
    for _ in 0..6 {
        now = backoff.record_failure(CLASS, RunCause::Due, now, &mut rng);
    }
    assert_eq!(backoff.failures(CLASS), 6);
    now = backoff.record_failure(CLASS, RunCause::Due, now + 3 * decay, &mut rng);
    assert_eq!(backoff.failures(CLASS), 4);
    backoff.record_failure(CLASS, RunCause::Due, now + 100 * decay, &mut rng);
    assert_eq!(backoff.failures(CLASS), 1);
}

#[test]
fn invalid_is_not_retried_within_a_minute() {
    let curves = BackoffPolicies::default();
    let (shortest, longest) = curves.for_class(ErrorClass::Invalid).range(1);
    assert_eq!(shortest, Duration::from_secs(60));
    assert_eq!(longest, Duration::from_secs(300));
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn facts(by: RunCause, now: Duration) -> RunStats {
    RunStats {
        cause: by,
        took: Duration::from_millis(10),
        has_written: false,
        closed_for: None,
        now,
    }
}

fn history() -> RetryState {
    RetryState::new(&ObjectKey::new(Some("default"), "a"), Arc::default())
}

fn failed(class: ErrorClass) -> RunResult {
    RunResult::Failed(Error::new(class, "no"))
}

fn due(sequel: &RetryDecision) -> Duration {
    match sequel.next {
        NextRun::Scheduled { due, .. } => due,
        NextRun::Idle => panic!("{sequel:?} has no time"),
    }
}

#[test]
fn conflicts_never_advance_the_failure_backoff() {
    let (mut history, options) = (history(), ControllerOptions::default());
    for number in 0..1_000 {
        let now = secs(number);
        let sequel = history.after_run(&failed(ErrorClass::Conflict), facts(RunCause::Due, now), &options);
        assert!(sequel.conflict_wait.is_some());
        assert!(due(&sequel) <= now + options.conflict.limit);
    }
    for class in ErrorClass::ALL
        .into_iter()
        .filter(|class| *class != ErrorClass::Conflict)
    {
        assert_eq!(history.consecutive_failures(class), 0, "{class:?}");
    }
}

#[test]
fn conflict_does_not_clear_a_failing_key() {
    let (mut history, options) = (history(), ControllerOptions::default());
    history.after_run(
        &failed(ErrorClass::Unavailable),
        facts(RunCause::Due, secs(1)),
        &options,
    );
    history.after_run(&failed(ErrorClass::Conflict), facts(RunCause::Due, secs(2)), &options);
    assert_eq!(history.consecutive_failures(ErrorClass::Unavailable), 1);
}

#[test]
fn a_quarantine_is_not_prolonged_by_events_and_ends_with_a_success() {
    let (mut history, options) = (history(), ControllerOptions::default());
    for number in 1..=5 {
        history.after_run(&failed(ErrorClass::Fault), facts(RunCause::Due, secs(number)), &options);
    }
    assert!(history.is_quarantined(secs(6)));
    let sequel = history.after_run(&failed(ErrorClass::Fault), facts(RunCause::Event, secs(100)), &options);
    assert_eq!(due(&sequel), secs(5) + options.quarantine);
    history.after_run(
        &RunResult::Ended(Action::Done),
        facts(RunCause::Event, secs(101)),
        &options,
    );
    assert!(history.is_clear() && !history.is_quarantined(secs(101)));
}

#[test]
fn closed_rate_limit_is_waited_out() {
    let (mut history, options) = (history(), ControllerOptions::default());
    let facts = RunStats {
        closed_for: Some(secs(300)),
        ..facts(RunCause::Event, secs(10))
    };
    assert_eq!(
        due(&history.after_run(&failed(ErrorClass::Throttled), facts, &options)),
        secs(310)
    );
}

#[test]
fn resyncs_keep_to_the_phase_of_the_key() {
    let mut history = history();
    let options = ControllerOptions {
        resync: Some(secs(60)),
        ..ControllerOptions::default()
    };
    let mut next = |now| {
        let ended = RunResult::Ended(Action::Done);
        due(&history.after_run(&ended, facts(RunCause::Due, now), &options))
    };
    let first = next(secs(0));
    assert!(first > secs(0) && first <= secs(60));
    assert_eq!(next(first), first + secs(60));
    assert_eq!(next(first + secs(7)), first + secs(60));
}
