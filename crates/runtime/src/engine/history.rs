//! The retry state of a key: outcomes of past runs in, time of the next run out. Pure.
//!
//! Dropped with the key. Conflicts are counted separately and never affect the backoff.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::contest::ConflictWait;
use super::options::ControllerOptions;
use crate::action::Action;
use crate::backoff::{Backoff, BackoffPolicies};
use crate::error::{Error, ErrorClass};
use crate::key::ObjectKey;
use crate::queue::{Lane, NextRun, RunCause, RunReason, WaitPolicy};

/// How a run ended.
#[derive(Debug)]
pub(crate) enum RunResult {
    /// The object does not exist any more, or its deletion needs nothing from this controller.
    Gone,
    /// The reconcile returned an action and its status was written.
    Ended(Action),
    /// The reconcile or a write failed.
    Failed(Error),
}

/// Other facts of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunStats {
    /// Whether an event or a timer started it.
    pub(crate) cause: RunCause,
    /// How long it took.
    pub(crate) took: Duration,
    /// Whether one of its writes was accepted.
    pub(crate) has_written: bool,
    /// How long until the rate limiter that rejected a call opens again.
    pub(crate) closed_for: Option<Duration>,
    /// When it ended, since the engine's start.
    pub(crate) now: Duration,
}

/// What follows from a run.
#[derive(Debug)]
pub(crate) struct RetryDecision {
    /// The next run.
    pub(crate) next: NextRun,
    /// The conflict to wait for, if there was one.
    pub(crate) conflict_wait: Option<ConflictWait>,
}

/// The retry state of a key.
#[derive(Debug)]
pub(crate) struct RetryState {
    backoff: Backoff,
    conflicts: u32,
    faults: u32,
    quarantined_until: Duration,
    phase: u64,
    rng: fastrand::Rng,
}

impl RetryState {
    /// The state of a key that has not run yet. Jitter and phase are derived from its name, so that they are
    /// the same after a restart and differ between keys.
    pub(crate) fn new(key: &ObjectKey, curves: Arc<BackoffPolicies>) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self {
            backoff: Backoff::new(curves),
            conflicts: 0,
            faults: 0,
            quarantined_until: Duration::ZERO,
            phase: hasher.finish(),
            rng: fastrand::Rng::with_seed(hasher.finish()),
        }
    }

    /// How many times in a row the key has failed with `class`.
    pub(crate) fn consecutive_failures(&self, class: ErrorClass) -> u32 {
        match class {
            ErrorClass::Conflict => self.conflicts,
            ErrorClass::Fault => self.faults,
            class => self.backoff.failures(class),
        }
    }

    /// Whether the key has no failures, so that its state can be dropped.
    pub(crate) fn is_clear(&self) -> bool {
        self.conflicts == 0 && self.faults == 0 && self.backoff.is_clear()
    }

    /// Whether the key is in quarantine.
    pub(crate) fn is_quarantined(&self, now: Duration) -> bool {
        now < self.quarantined_until
    }

    /// Whether the current failure is one too many.
    pub(crate) fn should_quarantine(&self, class: ErrorClass, options: &ControllerOptions) -> bool {
        class == ErrorClass::Fault && self.faults + 1 >= options.quarantine_after
    }

    /// Records a run and returns what follows.
    pub(crate) fn after_run(
        &mut self,
        outcome: &RunResult,
        facts: RunStats,
        options: &ControllerOptions,
    ) -> RetryDecision {
        let conflict = matches!(outcome, RunResult::Failed(error) if error.class() == ErrorClass::Conflict);
        if facts.has_written {
            // A pass that writes one object and loses on another has still lost.
            self.conflicts = if conflict { self.conflicts } else { 0 };
            self.backoff.record_success(ErrorClass::Invalid);
            self.backoff.record_success(ErrorClass::Exists);
        }
        match outcome {
            RunResult::Gone => RetryDecision::new(NextRun::Idle),
            RunResult::Ended(verdict) => {
                self.conflicts = 0;
                self.faults = 0;
                self.quarantined_until = Duration::ZERO;
                self.backoff.clear();
                RetryDecision::new(self.next_run(verdict, facts.now, options))
            }
            RunResult::Failed(error) if conflict => self.after_conflict(error, facts, options),
            RunResult::Failed(error) => RetryDecision::new(self.after_failure(error.class(), facts, options)),
        }
    }

    fn next_run(&self, verdict: &Action, now: Duration, options: &ControllerOptions) -> NextRun {
        let resync = options.resync.map(|every| self.next_resync(now, every));
        match (verdict, resync) {
            (Action::RequeueAfter(after), _) => NextRun::Scheduled {
                due: now.saturating_add(*after),
                lane: Lane::Input,
                reason: RunReason::Recheck,
                hold: WaitPolicy::AnyEvent,
            },
            (_, Some(due)) => NextRun::Scheduled {
                due,
                lane: Lane::Resync,
                reason: RunReason::Resync,
                hold: WaitPolicy::AnyEvent,
            },
            (_, None) => NextRun::Idle,
        }
    }

    /// The next time in this key's own phase, so that periodic work is spread and stays spread.
    fn next_resync(&self, now: Duration, every: Duration) -> Duration {
        let every = every.as_nanos().max(1);
        let phase = u128::from(self.phase) % every;
        let since = (now.as_nanos() + every - phase) % every;
        now + Duration::from_nanos(u64::try_from(every - since).unwrap_or(u64::MAX))
    }

    fn after_conflict(&mut self, error: &Error, facts: RunStats, options: &ControllerOptions) -> RetryDecision {
        self.conflicts += 1;
        let (object, read) = match error.object() {
            Some((object, read)) => (Some(object.clone()), read.clone()),
            None => (None, None),
        };
        let contest = ConflictWait::new(object, read, self.conflicts, facts.now, facts.took);
        RetryDecision {
            next: NextRun::Scheduled {
                due: contest.resume_at(options.conflict),
                lane: Lane::Input,
                reason: RunReason::Retry(ErrorClass::Conflict),
                hold: WaitPolicy::NoEvent,
            },
            conflict_wait: Some(contest),
        }
    }

    fn after_failure(&mut self, class: ErrorClass, facts: RunStats, options: &ControllerOptions) -> NextRun {
        let mut due = self
            .backoff
            .record_failure(class, facts.cause, facts.now, &mut self.rng);
        if class == ErrorClass::Fault {
            self.faults += 1;
            due = due.max(self.quarantine_end(facts, options));
        }
        if let Some(closed) = facts.closed_for {
            due = due.max(facts.now.saturating_add(closed));
        }
        NextRun::Scheduled {
            due,
            lane: Lane::Retry,
            reason: RunReason::Retry(class),
            hold: WaitPolicy::OneEvent,
        }
    }

    /// The end of the quarantine. An event that runs the key before it does not extend it.
    fn quarantine_end(&mut self, facts: RunStats, options: &ControllerOptions) -> Duration {
        let inside = facts.cause == RunCause::Event && facts.now < self.quarantined_until;
        if self.faults >= options.quarantine_after && !inside {
            self.quarantined_until = facts.now.saturating_add(options.quarantine);
        }
        self.quarantined_until
    }
}

impl RetryDecision {
    fn new(next: NextRun) -> Self {
        Self {
            next,
            conflict_wait: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            NextRun::Idle | NextRun::Keep => panic!("{sequel:?} has no time"),
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
}
