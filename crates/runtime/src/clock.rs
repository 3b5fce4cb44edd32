//! Wall time, for values that people read: conditions, Events, leases.
//!
//! Scheduling uses tokio's monotonic clock and must never depend on wall time.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// A source of wall time. Replicas in a test may disagree about it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's clock.
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        reason = "the only place in this crate that reads the system clock"
    )]
    pub fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// A clock that calls `now`.
    #[must_use]
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
