//! How long a key waits after a failure. Counted per key and class; events never make a wait longer.
//!
//! The first failure of a class opens a *window* that ends at a deadline. Runs caused by events
//! inside a window may fail any number of times: these failures are not counted and do not move the
//! deadline. Only a run that was due, or one after the deadline, opens the next and longer window.
//! So the wait depends on how long the key has been failing, never on the number of events.

use std::sync::Arc;
use std::time::Duration;

use crate::error::ErrorClass;
use crate::queue::RunCause;

/// How a wait is drawn from its longest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// The longest value itself.
    None,
    /// Any value between the floor and the longest: keys that failed together are retried at different times.
    Full,
    /// Anything from half of it to it.
    Equal,
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
            Jitter::Equal => (longest / 2).max(floor),
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
            // Only a safety timer: the actual wait ends when the cache has the winning version.
            ErrorClass::Conflict => BackoffPolicy::constant(seconds(1)),
            ErrorClass::Throttled | ErrorClass::Unavailable | ErrorClass::Forbidden => BackoffPolicy::default(),
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
pub struct Backoff {
    curves: Arc<BackoffPolicies>,
    // Seldom more than one.
    windows: Vec<Window>,
}

impl Backoff {
    /// No failure yet.
    #[must_use]
    pub fn new(curves: Arc<BackoffPolicies>) -> Self {
        Self {
            curves,
            windows: Vec::new(),
        }
    }

    /// Records a failure of `class` in a run that `by` caused. Returns the time, on the clock of `now`, of the
    /// next retry.
    pub fn record_failure(
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
    pub fn record_success(&mut self, class: ErrorClass) {
        self.windows.retain(|window| window.class != class);
    }

    /// Forgets all failures.
    pub fn clear(&mut self) {
        self.windows.clear();
    }

    /// The number of counted failures of `class` since the last success.
    #[must_use]
    pub fn failures(&self, class: ErrorClass) -> u32 {
        let window = self.windows.iter().find(|it| it.class == class);
        window.map_or(0, |window| window.failures)
    }

    /// Whether nothing has failed, so that the value can be dropped.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.windows.is_empty()
    }
}

#[cfg(test)]
mod tests;
