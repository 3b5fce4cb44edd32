//! How long a key waits after a failure. Per key and class, and never for longer because of events.
//!
//! The first failure of a class opens a *window* that ends at a deadline. A run that an event causes
//! inside a window may fail as often as it likes: the failure neither counts nor moves the deadline.
//! Only a run that was due, or one after the deadline, opens the next and longer window. So a key
//! waits as long as one that no event ever woke: at most in proportion to the time it has been
//! failing, never to the number of events.

use std::sync::Arc;
use std::time::Duration;

use crate::error::ErrorClass;
use crate::queue::RunCause;

/// How a wait is drawn from its longest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// The longest value itself.
    None,
    /// Anything from the floor to it: keys that failed together come back one by one.
    Full,
    /// Anything from half of it to it.
    Equal,
}

/// How waits grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The longest wait after the first failure.
    pub base: Duration,
    /// How much longer it gets with each further one; at least 1.
    pub factor: f64,
    /// No wait is longer.
    pub cap: Duration,
    /// No wait is shorter, unless the cap is.
    pub floor: Duration,
    /// How the wait is drawn.
    pub jitter: Jitter,
    /// For each such time that passes after a deadline without a failure, one failure is forgiven.
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
    /// A wait that is always the same.
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

    /// The same, between other waits.
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
        // Beyond the cap the power may be infinite, which no Duration is.
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

/// One curve for each class.
#[derive(Clone, Debug, PartialEq)]
pub struct BackoffPolicies([BackoffPolicy; ErrorClass::ALL.len()]);

impl BackoffPolicies {
    /// The curve of `class`.
    #[must_use]
    pub fn for_class(&self, class: ErrorClass) -> &BackoffPolicy {
        &self.0[class as usize]
    }

    /// With another curve for `class`.
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
            // Only the safety timer: the wait proper ends when the cache has passed the winner.
            ErrorClass::Conflict => BackoffPolicy::constant(seconds(1)),
            ErrorClass::Throttled | ErrorClass::Unavailable | ErrorClass::Forbidden => {
                BackoffPolicy::default()
            }
            // Somebody has to delete or rename something first.
            ErrorClass::Exists => BackoffPolicy::default().with_range(seconds(5), seconds(60)),
            ErrorClass::Missing => BackoffPolicy::default().with_range(seconds(1), seconds(30)),
            // The spec is what has to change, and that is an event; this is in case we were wrong.
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

/// The failures of one key. Dropped with the key; a key that does not fail needs none.
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

    /// A run that `by` caused failed with `class`. Gives the time, on the clock of `now`, before which
    /// the key need not try again.
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

    /// What fails with `class` has worked: the next failure is a first one.
    pub fn record_success(&mut self, class: ErrorClass) {
        self.windows.retain(|window| window.class != class);
    }

    /// Everything has worked.
    pub fn clear(&mut self) {
        self.windows.clear();
    }

    /// Failures of `class` that count, since the last success.
    #[must_use]
    pub fn failures(&self, class: ErrorClass) -> u32 {
        let window = self.windows.iter().find(|it| it.class == class);
        window.map_or(0, |window| window.failures)
    }

    /// Whether nothing is remembered, so that it need not be kept.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.windows.is_empty()
    }
}

#[cfg(test)]
mod tests;
