//! The queued keys: a first-in first-out list per lane, its maximum rate, and the choice of the next lane.
//!
//! A key with a more urgent event joins the end of the more urgent lane and keeps its place in
//! its former lane: an edit can only make a key run sooner, even during a flood of edits.
//!
//! A dispatch is given by share or by age. By share, it goes to the most urgent lane that still has credit:
//! each lane has its weight in credit, and when no lane with work has any left, all credits are renewed. By
//! age, it goes to a lane whose head has waited for half its bound: the lane is *called*. Two dispatches by age
//! never follow one another, so a called lane costs the others at most half of their shares. Among
//! called lanes, the first is the one that was called, or last served by age, the longest time ago, so
//! a flooded lane cannot delay another called lane.

use std::time::Duration;

use crate::queue::lists::SlotList;
use crate::queue::{Lane, QueueConfig};

#[derive(Debug)]
struct LaneQueue {
    fifo: SlotList,
    meter: Option<RateMeter>,
    /// Keys for which this is the most urgent of the lanes they are in.
    depth: usize,
}

impl LaneQueue {
    /// Since when, or from when on, the head can be served: a paced head is not late before its pace
    /// allows it.
    #[inline]
    fn ready_at(&self) -> Option<Duration> {
        let (_, entered) = self.fifo.front()?;
        let pace = self.meter.as_ref().map_or(Duration::ZERO, RateMeter::ready_at);
        Some(entered.max(pace))
    }
}

#[derive(Debug)]
pub(super) struct Lanes {
    queues: [LaneQueue; Lane::ALL.len()],
    scheduler: LaneScheduler,
}

impl Lanes {
    pub(super) fn new(config: &QueueConfig) -> Self {
        let line = |lane: Lane| LaneQueue {
            fifo: SlotList::new(),
            meter: config.lane(lane).pace.map(RateMeter::new),
            depth: 0,
        };
        Self {
            queues: Lane::ALL.map(line),
            scheduler: LaneScheduler::new(config),
        }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, slot: u32, lane: Lane, now: Duration) {
        let line = &mut self.queues[lane.index()];
        line.fifo.push_back(slot, now);
        line.depth += 1;
    }

    /// Adds the slot to the more urgent lane `to`.
    pub(super) fn promote(&mut self, slot: u32, from: Lane, to: Lane, now: Duration) {
        self.queues[from.index()].depth -= 1;
        self.enqueue(slot, to, now);
    }

    /// Removes the slot from every lane. `lane` is the most urgent it was in.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32, lane: Lane) {
        self.queues[lane.index()].depth -= 1;
        for line in &mut self.queues {
            line.fifo.remove(slot);
        }
    }

    /// The slot to serve now. It stays queued until it is removed.
    #[inline]
    pub(super) fn select(&mut self, now: Duration) -> Option<u32> {
        let mut ready = LaneReadiness::default();
        for (ready, line) in ready.iter_mut().zip(&self.queues) {
            *ready = line.ready_at().filter(|ready| *ready <= now);
        }
        let lane = self.scheduler.select(&ready, now)?;
        let line = &mut self.queues[lane.index()];
        if let Some(meter) = &mut line.meter {
            meter.record(now);
        }
        line.fifo.front().map(|(slot, _)| slot)
    }

    /// When `pick` next returns a slot.
    pub(super) fn next_ready(&self) -> Option<Duration> {
        self.queues.iter().filter_map(LaneQueue::ready_at).min()
    }

    pub(super) fn depth(&self, lane: Lane) -> usize {
        self.queues[lane.index()].depth
    }

    /// Since when the head of `lane` has been in it.
    pub(super) fn head(&self, lane: Lane) -> Option<Duration> {
        self.queues[lane.index()].fifo.front().map(|head| head.1)
    }
}

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

/// A rate with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRate {
    /// How many per second, on average.
    pub per_second: u32,
    /// How many at once after a quiet time.
    pub burst: u32,
}

/// A meter for a [`LaneRate`] that keeps no count, only the time at which the bucket would be
/// full again.
#[derive(Debug)]
pub(super) struct RateMeter {
    interval: Duration,
    burst: Duration,
    full: Duration,
}

impl RateMeter {
    pub(super) fn new(pace: LaneRate) -> Self {
        let interval = Duration::from_secs(1) / pace.per_second.max(1);
        Self {
            interval,
            burst: interval * (pace.burst.max(1) - 1),
            full: Duration::ZERO,
        }
    }

    /// Since when, or from when on, one more is allowed.
    pub(super) fn ready_at(&self) -> Duration {
        self.full.saturating_sub(self.burst)
    }

    pub(super) fn record(&mut self, now: Duration) {
        self.full = self.full.max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rate_is_never_faster_or_slower_than_configured(
            per_second in 1_u32..200,
            burst in 1_u32..50,
            gaps in prop::collection::vec(0_u64..100, 1..40),
        ) {
            let mut meter = RateMeter::new(LaneRate { per_second, burst });
            let interval = Duration::from_secs(1) / per_second;
            let (mut now, mut taken) = (Duration::ZERO, Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap);
                while meter.ready_at() <= now {
                    meter.record(now);
                    taken.push(now);
                }
                // A caller that returns at that time is allowed.
                prop_assert!(meter.ready_at() <= now + interval);
            }
            for (i, from) in taken.iter().enumerate() {
                for (j, to) in taken.iter().enumerate().skip(i) {
                    let allowed = u64::from(burst) + ((*to - *from).as_nanos() / interval.as_nanos()) as u64;
                    prop_assert!((j - i + 1) as u64 <= allowed + 1);
                }
            }
        }
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut meter = RateMeter::new(LaneRate {
            per_second: 100,
            burst: 10,
        });
        for _ in 0..10 {
            assert!(meter.ready_at() <= Duration::ZERO);
            meter.record(Duration::ZERO);
        }
        assert_eq!(meter.ready_at(), Duration::from_millis(10));
    }
}
