//! What a budget is made of, as data.

use std::time::Duration;

use super::LimitLane;
use super::dialect::HeaderFormat;

/// Nothing is worth waiting longer for than to the next day.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// One lane of a budget. The order of the table is the order of service.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitLaneConfig {
    /// What metrics and logs call it.
    pub name: String,
    /// How many calls of the burst no other lane can spend.
    pub reserve: u32,
    /// How many of the calls in flight no other lane can take.
    pub slots: usize,
}

/// What may be spent on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitConfig {
    /// Calls a second, over time. Anything but a positive number counts as one.
    pub rate: f64,
    /// Calls that may be made at once after a quiet time, reserves included. At least one is
    /// shared by all lanes.
    pub burst: u32,
    /// Calls in flight, slots of the lanes included. At least one is shared by all lanes.
    pub concurrency: usize,
    /// The lanes, served in this order. Without any, all calls are in one.
    pub lanes: Vec<LimitLaneConfig>,
    /// How the target speaks of its limits.
    pub header_formats: Vec<HeaderFormat>,
    /// After a refusal, how long it takes from a trickle back to the full rate. Not after that of a
    /// bucket that fills steadily: it has one call again in the time of one, for the most urgent lane.
    pub ramp: Duration,
    /// No answer, however strange, closes the budget for longer than this.
    pub longest_wait: Duration,
}

impl LimitConfig {
    /// The same with what makes no sense made sensible, so that nothing else has to ask.
    pub(super) fn normalized(mut self) -> Self {
        if !self.rate.is_finite() || self.rate <= 0.0 {
            self.rate = 1.0;
        }
        if self.lanes.is_empty() {
            self.lanes.push(LimitLaneConfig {
                name: "all".to_owned(),
                reserve: 0,
                slots: 0,
            });
        }
        self.ramp = self.ramp.min(MAX_WAIT);
        self.longest_wait = self.longest_wait.min(MAX_WAIT);
        self
    }

    /// The place of a lane in the table. A lane that is not in it is the least urgent one.
    pub(super) fn lane_index(&self, lane: LimitLane) -> usize {
        lane.0.min(self.lanes.len().saturating_sub(1))
    }
}
