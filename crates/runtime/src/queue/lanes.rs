//! The queued keys: a first-in first-out list per lane, its pace, and the choice of the next lane.
//!
//! A key with a more urgent event joins the end of the more urgent lane and keeps its place in
//! its former lane: an edit can only make a key run sooner, even during a flood of edits.

use std::time::Duration;

use super::fifo::SlotList;
use super::pace::RateMeter;
use super::turns::{LaneReadiness, LaneScheduler};
use super::{Lane, QueueConfig};

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

    /// The slots for which `lane` may be the most urgent, in first-in first-out order.
    pub(super) fn iter(&self, lane: Lane) -> impl Iterator<Item = (u32, Duration)> + '_ {
        self.queues[lane.index()].fifo.iter()
    }
}
