//! What can be set about a controller. Every default is meant to be right for an operator in
//! production; tests switch behaviours off to show that they matter.

use std::sync::Arc;
use std::time::Duration;

use super::contest::ConflictPolicy;
use crate::backoff::BackoffPolicies;
use crate::queue;

/// How a controller runs its keys.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// How many keys run at once.
    pub workers: usize,
    /// A run that takes longer waits for something, and lends its place to another, until four times
    /// `workers` run: objects that wait for something dead do not stop the others. `None`: never.
    pub lend_after: Option<Duration>,
    /// How long one run may take. What is longer is a fault of that key.
    pub deadline: Duration,
    /// How often each object is looked at although nothing changed; spread by key.
    pub resync: Option<Duration>,
    /// How conflicts are waited out.
    pub conflict: ConflictPolicy,
    /// How failures of each class are retried.
    pub backoff: Arc<BackoffPolicies>,
    /// After this many faults in a row a key is quarantined with `Stalled=True`.
    pub quarantine_after: u32,
    /// How long a quarantine lasts unless the object is edited.
    pub quarantine: Duration,
    /// Lanes, their shares, age bounds and pace.
    pub queue: queue::QueueConfig,
}

/// The time a pass has for its status after the reconcile has used up its own.
const STATUS_WRITE_TIME: Duration = Duration::from_secs(5);

impl ControllerOptions {
    /// How long a run can last, its status write included.
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
