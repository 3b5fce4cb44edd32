//! Wall time, for what people read: conditions, events, leases.
//!
//! Decisions are made on tokio's monotonic clock; nothing here may decide when something runs.

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
        reason = "the one place of this crate that may ask the system"
    )]
    pub fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// A clock read through `now`.
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
