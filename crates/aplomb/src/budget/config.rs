//! What a budget is made of, as data.

use std::time::Duration;

use super::Lane;
use super::dialect::Dialect;

/// One lane of a budget. The order of the table is the order of service.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneConfig {
    /// What metrics and logs call it.
    pub name: String,
    /// How many calls of the burst no other lane can spend.
    pub reserve: u32,
    /// How many of the calls in flight no other lane can take.
    pub slots: usize,
}

/// What may be spent on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Calls a second, over time. Anything but a positive number counts as one.
    pub rate: f64,
    /// Calls that may be made at once after a quiet time, reserves included.
    pub burst: u32,
    /// Calls in flight, slots of the lanes included.
    pub concurrency: usize,
    /// The lanes, served in this order.
    pub lanes: Vec<LaneConfig>,
    /// How the target speaks of its limits.
    pub dialects: Vec<Dialect>,
    /// After a refusal, how long it takes from a trickle back to the full rate.
    pub ramp: Duration,
    /// No answer, however strange, closes the budget for longer than this.
    pub longest_wait: Duration,
}

impl Config {
    /// The rate, whatever was configured.
    pub(super) fn sane_rate(&self) -> f64 {
        if self.rate.is_finite() && self.rate > 0.0 {
            self.rate
        } else {
            1.0
        }
    }

    /// The place of a lane in the table. A lane that is not in it is the least urgent one.
    pub(super) fn index(&self, lane: Lane) -> usize {
        lane.0.min(self.lanes.len().saturating_sub(1))
    }
}
