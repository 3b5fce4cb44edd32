//! When a key runs again after a failure: the failures of each key, and the backoff policies.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::action::Action;
use crate::controller::ControllerOptions;
use crate::controller::conflict::ConflictWait;
use crate::error::{Error, ErrorClass};
use crate::key::ObjectKey;
use crate::queue::{Lane, NextRun, RunCause, RunReason, WaitPolicy};
use crate::support::seed_of;

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
        let seed = seed_of(key);
        Self {
            backoff: Backoff::new(curves),
            conflicts: 0,
            faults: 0,
            quarantined_until: Duration::ZERO,
            phase: seed,
            rng: fastrand::Rng::with_seed(seed),
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

/// How a wait is drawn from its longest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// The longest value itself.
    None,
    /// Any value between the floor and the longest: keys that failed together are retried at different times.
    Full,
}

/// How waits grow with repeated failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The maximum wait after the first failure.
    pub base: Duration,
    /// The growth with each further failure; at least 1.
    pub factor: f64,
    /// The maximum of all waits.
    pub cap: Duration,
    /// The minimum of all waits, unless the cap is lower.
    pub floor: Duration,
    /// How the wait is drawn.
    pub jitter: Jitter,
    /// The failure count is reduced by one for every such period without a failure after a deadline.
    pub decay: Duration,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            factor: 2.0,
            cap: Duration::from_secs(60),
            floor: Duration::from_millis(50),
            jitter: Jitter::Full,
            decay: Duration::from_secs(60),
        }
    }
}

impl BackoffPolicy {
    /// A constant wait.
    #[must_use]
    pub fn constant(wait: Duration) -> Self {
        Self {
            base: wait,
            factor: 1.0,
            cap: wait,
            floor: wait,
            jitter: Jitter::None,
            ..Self::default()
        }
    }

    /// The same policy with another base and cap.
    #[must_use]
    pub fn with_range(self, base: Duration, cap: Duration) -> Self {
        Self { base, cap, ..self }
    }

    /// The shortest and the longest wait after the `failures`th failure.
    #[must_use]
    pub fn range(&self, failures: u32) -> (Duration, Duration) {
        let floor = self.floor.min(self.cap);
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.base.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        // Beyond the cap the power may be infinite, which a Duration cannot hold.
        let longest = if grown < self.cap.as_secs_f64() {
            Duration::from_secs_f64(grown).clamp(floor, self.cap)
        } else {
            self.cap
        };
        let shortest = match self.jitter {
            Jitter::None => longest,
            Jitter::Full => floor,
        };
        (shortest, longest)
    }

    fn sample(&self, failures: u32, rng: &mut fastrand::Rng) -> Duration {
        let (shortest, longest) = self.range(failures);
        shortest + (longest - shortest).mul_f64(rng.f64())
    }

    fn decayed_failures(&self, quiet: Duration) -> u32 {
        match quiet.as_nanos().checked_div(self.decay.as_nanos()) {
            Some(times) => u32::try_from(times).unwrap_or(u32::MAX),
            None => u32::MAX,
        }
    }
}

/// One policy for each class.
#[derive(Clone, Debug, PartialEq)]
pub struct BackoffPolicies([BackoffPolicy; ErrorClass::ALL.len()]);

impl BackoffPolicies {
    /// The policy of `class`.
    #[must_use]
    pub fn for_class(&self, class: ErrorClass) -> &BackoffPolicy {
        &self.0[class as usize]
    }

    /// With another policy for `class`.
    #[must_use]
    pub fn with_policy(mut self, class: ErrorClass, curve: BackoffPolicy) -> Self {
        self.0[class as usize] = curve;
        self
    }
}

impl Default for BackoffPolicies {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let curve = |class| match class {
            // A conflict waits for the version that won, and never uses a policy.
            ErrorClass::Conflict | ErrorClass::Throttled | ErrorClass::Unavailable | ErrorClass::Forbidden => {
                BackoffPolicy::default()
            }
            // The other object has to be deleted or renamed first.
            ErrorClass::Exists => BackoffPolicy::default().with_range(seconds(5), seconds(60)),
            ErrorClass::Missing => BackoffPolicy::default().with_range(seconds(1), seconds(30)),
            // Only a change of the spec helps, and that is an event. The timer covers wrong classifications.
            ErrorClass::Invalid => BackoffPolicy {
                floor: seconds(60),
                ..BackoffPolicy::default().with_range(seconds(300), seconds(3_600))
            },
            ErrorClass::Fault => BackoffPolicy::default().with_range(seconds(1), seconds(300)),
        };
        Self(ErrorClass::ALL.map(curve))
    }
}

#[derive(Clone, Copy, Debug)]
struct Window {
    class: ErrorClass,
    failures: u32,
    deadline: Duration,
}

/// The failures of one key. Dropped with the key; a key that does not fail has none.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    curves: Arc<BackoffPolicies>,
    // Seldom more than one.
    windows: Vec<Window>,
}

impl Backoff {
    /// No failure yet.
    pub(crate) fn new(curves: Arc<BackoffPolicies>) -> Self {
        Self {
            curves,
            windows: Vec::new(),
        }
    }

    /// Records a failure of `class` in a run that `by` caused. Returns the time, on the clock of `now`, of the
    /// next retry.
    pub(crate) fn record_failure(
        &mut self,
        class: ErrorClass,
        by: RunCause,
        now: Duration,
        rng: &mut fastrand::Rng,
    ) -> Duration {
        let curve = self.curves.for_class(class);
        let known = self.windows.iter_mut().find(|it| it.class == class);
        let Some(window) = known else {
            let deadline = now.saturating_add(curve.sample(1, rng));
            self.windows.push(Window {
                class,
                failures: 1,
                deadline,
            });
            return deadline;
        };
        if by == RunCause::Event && now < window.deadline {
            return window.deadline;
        }
        let forgiven = curve.decayed_failures(now.saturating_sub(window.deadline));
        window.failures = window.failures.saturating_sub(forgiven).saturating_add(1);
        window.deadline = now.saturating_add(curve.sample(window.failures, rng));
        window.deadline
    }

    /// Records a success: the next failure of `class` counts as the first.
    pub(crate) fn record_success(&mut self, class: ErrorClass) {
        self.windows.retain(|window| window.class != class);
    }

    /// Forgets all failures.
    pub(crate) fn clear(&mut self) {
        self.windows.clear();
    }

    /// The number of counted failures of `class` since the last success.
    pub(crate) fn failures(&self, class: ErrorClass) -> u32 {
        let window = self.windows.iter().find(|it| it.class == class);
        window.map_or(0, |window| window.failures)
    }

    /// Whether nothing has failed, so that the value can be dropped.
    pub(crate) fn is_clear(&self) -> bool {
        self.windows.is_empty()
    }
}
