//! The parameters of the queue, and the reasons for their values.

use std::time::Duration;

use super::{Lane, LaneRate};

/// The parameters of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// Its share of dispatches when every lane has work. A lane of weight zero is served only by its
    /// bound, or when no lane with a weight has work.
    pub weight: u32,
    /// How long the lane may go unserved while it has work. `None`: without limit.
    pub bound: Option<Duration>,
    /// Its maximum rate.
    pub pace: Option<LaneRate>,
}

/// The parameters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Lane [`Lane::Edit`]: a user waits for the result.
    pub edit: LaneConfig,
    /// Lane [`Lane::Input`].
    pub input: LaneConfig,
    /// Lane [`Lane::Retry`].
    pub retry: LaneConfig,
    /// Lane [`Lane::Resync`]: no user waits for the result, so it is paced.
    pub resync: LaneConfig,
}

impl QueueConfig {
    /// Strict priority: an urgent lane with work keeps every other lane waiting, without limit. Most
    /// queues do this; it is here for comparison.
    #[must_use]
    pub const fn strict() -> Self {
        let last = LaneConfig {
            weight: 0,
            bound: None,
            pace: None,
        };
        Self {
            edit: last,
            input: last,
            retry: last,
            resync: last,
        }
    }

    /// The parameters of `lane`.
    #[must_use]
    pub const fn lane(&self, lane: Lane) -> &LaneConfig {
        match lane {
            Lane::Edit => &self.edit,
            Lane::Input => &self.input,
            Lane::Retry => &self.retry,
            Lane::Resync => &self.resync,
        }
    }
}

/// A hundred resyncs per second after a burst of ten: after a restart, 10,000 converged objects are
/// reconciled over 100 s, one every ten milliseconds, while everything else is served at once. A
/// reconcile that changes nothing costs the API server nothing, so this limits only our own CPU and
/// external reads.
impl Default for QueueConfig {
    fn default() -> Self {
        let lane = |weight, seconds, pace| LaneConfig {
            weight,
            bound: Some(Duration::from_secs(seconds)),
            pace,
        };
        let slow = LaneRate {
            per_second: 100,
            burst: 10,
        };
        Self {
            edit: lane(8, 1, None),
            input: lane(4, 5, None),
            retry: lane(2, 15, None),
            resync: lane(1, 60, Some(slow)),
        }
    }
}
