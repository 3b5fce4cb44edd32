//! Decides which key runs next. Pure and synchronous: time is passed in as [`Duration`] since the engine's start.
//!
//! A key is idle, queued, running, running with unserved events, or waiting for a time.
//!
//! - A key never runs twice at once. An event during a run makes it run again after it.
//! - Reasons of events are kept, each once, until a run takes them.
//! - A timer of a key is kept when an event runs the key first, until the end of that run
//!   ([`FairQueue::complete`]) replaces it.
//! - An idle or forgotten key costs nothing.
//!
//! # Lanes
//!
//! Inside a [lane](Lane) keys are served in the order they came. Between lanes the next dispatch is chosen by
//! share or by age. *W* is the sum of the weights, *w* that of a lane. A lane is *ready* while it has a queued
//! key and its pace, if it has one, allows it to run. For any contents of the other lanes:
//!
//! 1. **Share.** Of any 2(2*W* − *w*) dispatches during which it is ready, a lane gets at least *w*. A
//!    key behind *q* keys of its lane is dispatched within 2(*W* − *w* + *W*⌈(*q*+1)/*w*⌉).
//! 2. **Age.** A lane whose head has been ready for half its bound is served within the next 8
//!    dispatches, and within the next 2 while no other lane is that late.
//!
//! So if at least 16 keys are taken within the time of a lane's bound, that lane is never unserved for
//! longer than its bound while it is ready, regardless of the load; and a key of a lane that gets at
//! most half its share of the work waits no longer than its position requires. No
//! queue can prevent the backlog of a lane that gets more work than there is time for.
//! As a key is queued once regardless of its number of events, that backlog is at most the number
//! of objects.
//!
//! # Cost
//!
//! Every operation is O(1), plus O(log *t*) for each of *t* waiting keys that becomes due. The end of a
//! run costs the same regardless of the number of queued or running keys.

mod lanes;
mod lists;
mod slots;
#[cfg(test)]
mod tests;
mod types;

use std::hash::Hash;
use std::time::Duration;

pub use self::lanes::LaneRate;
use self::lanes::Lanes;
use self::lists::{SlotList, Timers};
use self::slots::{KeyState, ScheduledRun, Slots};
pub use self::types::{
    Dispatch, Lane, LaneConfig, NextRun, QueueConfig, RunCause, RunReason, RunReasons, RunTicket, WaitPolicy,
};
use crate::error::ErrorClass;

/// The queue of one controller.
#[derive(Debug)]
pub struct FairQueue<K> {
    slots: Slots<K>,
    lanes: Lanes,
    timers: Timers,
    running: SlotList,
    runs: u64,
    waits: WaitCounts,
}

impl<K: Clone + Eq + Hash> FairQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(config: QueueConfig) -> Self {
        Self {
            slots: Slots::new(),
            lanes: Lanes::new(&config),
            timers: Timers::default(),
            running: SlotList::new(),
            runs: 0,
            waits: WaitCounts::default(),
        }
    }

    /// Adds an event. Returns false if it joins earlier events of this key that no run has served yet.
    ///
    /// A queued key moves up if this lane is more urgent; a running key will run again; a
    /// waiting key is handled by its [`WaitPolicy`].
    pub fn push(&mut self, key: &K, lane: Lane, reason: RunReason, now: Duration) -> bool {
        self.advance(now);
        let slot = self.slots.find_or_insert(key);
        self.push_event(slot, lane, reason, RunCause::Event, now)
    }

    /// Ends the wait of a key regardless of its policy: its condition is met. A running key will run
    /// again at once, regardless of the result of that run.
    pub fn release(&mut self, key: &K, lane: Lane, reason: RunReason, now: Duration) {
        self.advance(now);
        let slot = self.slots.find_or_insert(key);
        self.push_event(slot, lane, reason, RunCause::Due, now);
        let entry = self.slots.get_mut(slot).expect("it was just found");
        if entry.state == KeyState::Queued {
            entry.scheduled = None;
            self.timers.clear(slot);
        }
    }

    /// The cause of a failure may have changed: under [`WaitPolicy::OneEvent`] an event may run the key again,
    /// although one did already.
    pub fn reset_event_allowance(&mut self, key: &K) {
        let slot = self.slots.find(key);
        let entry = slot.and_then(|slot| self.slots.get_mut(slot));
        if let Some(obligation) = entry.and_then(|entry| entry.scheduled.as_mut()) {
            obligation.reset_event_allowance();
        }
    }

    /// The key to run now, if there is one.
    pub fn pop(&mut self, now: Duration) -> Option<Dispatch<K>> {
        self.advance(now);
        let slot = self.lanes.select(now)?;
        let entry = self.slots.get_mut(slot)?;
        let unserved = entry.pending.take().expect("a key in line has events");
        self.runs += 1;
        entry.state = KeyState::Running {
            run: self.runs,
            forgotten: false,
        };
        self.lanes.remove(slot, unserved.lane);
        self.timers.clear(slot);
        self.running.push_back(slot, now);
        Some(Dispatch {
            ticket: RunTicket { slot, run: self.runs },
            key: entry.key.clone(),
            lane: unserved.lane,
            reasons: unserved.reasons,
            waited: now.saturating_sub(unserved.since),
            by: unserved.by,
        })
    }

    /// A run ended. Returns false, without effect, if the ticket is not of a run in progress.
    pub fn complete(&mut self, ticket: RunTicket, next: NextRun, now: Duration) -> bool {
        self.advance(now);
        let Some(entry) = self.slots.get_mut(ticket.slot) else {
            return false;
        };
        let KeyState::Running { run, forgotten } = entry.state else {
            return false;
        };
        if run != ticket.run {
            return false;
        }
        self.running.remove(ticket.slot);
        let before = entry.scheduled.take();
        entry.scheduled = if forgotten {
            None
        } else {
            ScheduledRun::after_run(before, next)
        };
        self.place_after_run(ticket.slot, now);
        true
    }

    /// The object was deleted: drops all state of its key. A run in progress ends without
    /// effect; a later event starts from scratch.
    pub fn remove(&mut self, key: &K) {
        let Some(slot) = self.slots.find(key) else {
            return;
        };
        let entry = self.slots.get_mut(slot).expect("it was just found");
        let unserved = entry.pending.take();
        let obligation = entry.scheduled.take();
        if let KeyState::Running { forgotten, .. } = &mut entry.state {
            *forgotten = true;
            return;
        }
        match (entry.state, unserved, obligation) {
            (KeyState::Queued, Some(unserved), _) => self.lanes.remove(slot, unserved.lane),
            (_, _, Some(obligation)) => self.waits.sub(obligation.reason),
            _ => {}
        }
        self.timers.clear(slot);
        self.slots.remove(slot);
    }

    /// The earliest time at which [`pop`](Self::pop) may return a key that it does not return now.
    /// `None`: not before an event or the end of a run.
    #[must_use]
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let moments = [self.timers.first(), self.lanes.next_ready()];
        moments.into_iter().flatten().min().map(|at| at.max(now))
    }

    /// The number of queued keys whose most urgent lane is `lane`.
    #[must_use]
    pub fn depth(&self, lane: Lane) -> usize {
        self.lanes.depth(lane)
    }

    /// How long the head of `lane` has been in it.
    #[must_use]
    pub fn oldest(&self, lane: Lane, now: Duration) -> Option<Duration> {
        let entered = self.lanes.head(lane)?;
        Some(now.saturating_sub(entered))
    }

    /// The number of keys that wait for a time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waits.0.iter().sum()
    }

    /// The number of keys that wait to retry after a failure of `class`; with `None`, of those that wait for
    /// another reason.
    #[must_use]
    pub fn waiting_after(&self, class: Option<ErrorClass>) -> usize {
        self.waits.0[WaitCounts::index(class)]
    }

    /// The number of running keys.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// The duration of the longest run in progress.
    #[must_use]
    pub fn longest_run(&self, now: Duration) -> Option<Duration> {
        let (_, started) = self.running.front()?;
        Some(now.saturating_sub(started))
    }

    /// The total duration of all runs in progress.
    #[must_use]
    pub fn unfinished(&self, now: Duration) -> Duration {
        self.running.total_age(now)
    }

    /// The number of keys that are not idle.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether every key is idle.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Clone + Eq + Hash> FairQueue<K> {
    /// Queues keys that have become due, in the order they did, before later events.
    pub(super) fn advance(&mut self, now: Duration) {
        while let Some(slot) = self.timers.pop(now) {
            let entry = self.slots.get(slot);
            let due = entry.and_then(|entry| entry.scheduled.as_deref().copied());
            let due = due.expect("a timer belongs to an obligation");
            self.push_event(slot, due.lane, due.reason, RunCause::Due, due.due);
            if let Some(entry) = self.slots.get_mut(slot) {
                entry.scheduled = None;
            }
        }
    }

    pub(super) fn push_event(&mut self, slot: u32, lane: Lane, reason: RunReason, by: RunCause, now: Duration) -> bool {
        let entry = self.slots.get_mut(slot).expect("the caller found it");
        let before = entry.pending.as_ref().map(|unserved| unserved.lane);
        let lane_now = entry.record_event(lane, reason, by, now);
        match (entry.state, before) {
            (KeyState::Queued, Some(from)) if lane_now < from => {
                self.lanes.promote(slot, from, lane_now, now);
            }
            (KeyState::Waiting, _) if by == RunCause::Due || entry.admit_event() => {
                if let Some(obligation) = &entry.scheduled {
                    self.waits.sub(obligation.reason);
                }
                entry.state = KeyState::Queued;
                self.lanes.enqueue(slot, lane_now, now);
            }
            _ => {}
        }
        before.is_none()
    }

    /// The next state of a key after its run: queued, waiting or idle.
    pub(super) fn place_after_run(&mut self, slot: u32, now: Duration) {
        let entry = self.slots.get_mut(slot).expect("the caller found it");
        let unserved = entry.pending.as_ref().map(|it| (it.lane, it.by));
        if unserved.is_some_and(|(_, by)| by == RunCause::Due) {
            entry.scheduled = None;
        }
        match unserved {
            Some((lane, _)) if entry.admit_event() => {
                entry.state = KeyState::Queued;
                self.lanes.enqueue(slot, lane, now);
            }
            _ => entry.state = KeyState::Waiting,
        }
        match &entry.scheduled {
            Some(obligation) => {
                self.timers.set(slot, obligation.due);
                if entry.state == KeyState::Waiting {
                    self.waits.add(obligation.reason);
                }
            }
            None if entry.state == KeyState::Waiting => self.slots.remove(slot),
            None => {}
        }
    }
}

/// The number of waiting keys, by the class of the failure they wait after.
#[derive(Debug, Default)]
pub(super) struct WaitCounts(pub(super) [usize; ErrorClass::ALL.len() + 1]);

impl WaitCounts {
    pub(super) fn index(class: Option<ErrorClass>) -> usize {
        class.map_or(ErrorClass::ALL.len(), |class| class as usize)
    }

    pub(super) fn add(&mut self, reason: RunReason) {
        self.0[Self::index(reason.class())] += 1;
    }

    pub(super) fn sub(&mut self, reason: RunReason) {
        self.0[Self::index(reason.class())] -= 1;
    }
}
