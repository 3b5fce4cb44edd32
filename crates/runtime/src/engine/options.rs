//! The options of a controller. Every default should be right for an operator in
//! production; tests disable single behaviors to show that they matter.

use std::sync::Arc;
use std::time::Duration;

use super::contest::ConflictPolicy;
use crate::backoff::BackoffPolicies;
use crate::queue;

/// How a controller runs its keys.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The number of concurrent runs.
    pub workers: usize,
    /// A run that takes longer than this is assumed to wait, and another run may start, up to four times
    /// `workers` runs in total: objects that wait for a dead service do not stop the others. `None`: never.
    pub lend_after: Option<Duration>,
    /// The time limit of one run. Exceeding it counts as a failure of that key.
    pub deadline: Duration,
    /// How often each object is reconciled when nothing changed; spread over keys.
    pub resync: Option<Duration>,
    /// How keys wait after conflicts.
    pub conflict: ConflictPolicy,
    /// How failures of each class are retried.
    pub backoff: Arc<BackoffPolicies>,
    /// After this many failures in a row a key is quarantined with `Stalled=True`.
    pub quarantine_after: u32,
    /// How long a quarantine lasts unless the object is edited.
    pub quarantine: Duration,
    /// Lanes, their shares, age bounds and pace.
    pub queue: queue::QueueConfig,
}

/// The time for the status write after the reconcile has used up its own time.
const STATUS_WRITE_TIME: Duration = Duration::from_secs(5);

impl ControllerOptions {
    /// The maximum duration of a run, including its status write.
    pub(crate) fn bound(&self) -> Duration {
        self.deadline.saturating_add(STATUS_WRITE_TIME)
    }
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            lend_after: Some(Duration::from_secs(5)),
            deadline: Duration::from_secs(30),
            resync: None,
            conflict: ConflictPolicy::default(),
            backoff: Arc::default(),
            quarantine_after: 5,
            quarantine: Duration::from_secs(600),
            queue: queue::QueueConfig::default(),
        }
    }
}
