//! Chooses the next lane among those with work. Independent of keys.
//!
//! A dispatch is given by share or by age. By share, it goes to the most urgent lane that still has credit:
//! each lane has its weight in credit, and when no lane with work has any left, all credits are renewed. By
//! age, it goes to a lane whose head has waited for half its bound: the lane is *called*. Two dispatches by age
//! never follow one another, so a called lane costs the others at most half of their shares. Among
//! called lanes, the first is the one that was called, or last served by age, the longest time ago, so
//! a flooded lane cannot delay another called lane.

use std::time::Duration;

use super::{Lane, QueueConfig};

const LANES: usize = Lane::ALL.len();

/// Since when each lane's head could have been served, for those that can be now.
pub(super) type LaneReadiness = [Option<Duration>; LANES];

#[derive(Debug)]
struct LaneShare {
    weight: u32,
    credit: u32,
    /// After how long the lane is called: half its bound, so that dispatches of the others that may
    /// still come first fit in the other half.
    patience: Option<Duration>,
    /// When it was last served by age, and the number of that dispatch among all by age.
    last_aged: (Duration, u64),
}

#[derive(Debug)]
pub(super) struct LaneScheduler {
    lanes: [LaneShare; LANES],
    age_turns: u64,
    last_by_age: bool,
}

impl LaneScheduler {
    pub(super) fn new(config: &QueueConfig) -> Self {
        let turn = |lane: Lane| {
            let lane = config.lane(lane);
            LaneShare {
                weight: lane.weight,
                credit: lane.weight,
                patience: lane.bound.map(|bound| bound / 2),
                last_aged: (Duration::ZERO, 0),
            }
        };
        Self {
            lanes: Lane::ALL.map(turn),
            age_turns: 0,
            last_by_age: false,
        }
    }

    /// The lane to serve, which then counts as served.
    #[inline]
    pub(super) fn select(&mut self, ready: &LaneReadiness, now: Duration) -> Option<Lane> {
        let called = if self.last_by_age {
            None
        } else {
            self.overdue_lane(ready, now)
        };
        let lane = called.or_else(|| self.select_by_share(ready))?;
        self.last_by_age = called.is_some();
        if self.last_by_age {
            self.age_turns += 1;
            self.lanes[lane.index()].last_aged = (now, self.age_turns);
        }
        Some(lane)
    }

    #[inline]
    fn overdue_lane(&self, ready: &LaneReadiness, now: Duration) -> Option<Lane> {
        let call = |lane: &Lane| {
            let turn = &self.lanes[lane.index()];
            let at = ready[lane.index()]?.saturating_add(turn.patience?);
            // The number decides if both times are equal.
            (at <= now).then_some((at.max(turn.last_aged.0), turn.last_aged.1, *lane))
        };
        Lane::ALL.iter().filter_map(call).min().map(|call| call.2)
    }

    #[inline]
    fn select_by_share(&mut self, ready: &LaneReadiness) -> Option<Lane> {
        let has_work = |lane: &Lane| ready[lane.index()].is_some();
        let urgent = Lane::ALL.into_iter().find(has_work)?;
        let lane = match self.lane_with_credit(ready) {
            Some(lane) => lane,
            None => {
                for turn in &mut self.lanes {
                    turn.credit = turn.weight;
                }
                self.lane_with_credit(ready).unwrap_or(urgent)
            }
        };
        let credit = &mut self.lanes[lane.index()].credit;
        *credit = credit.saturating_sub(1);
        Some(lane)
    }

    #[inline]
    fn lane_with_credit(&self, ready: &LaneReadiness) -> Option<Lane> {
        let mut lanes = Lane::ALL.into_iter();
        lanes.find(|lane| ready[lane.index()].is_some() && self.lanes[lane.index()].credit > 0)
    }
}
