//! Which key runs next. Pure and synchronous: time is given, in [`Duration`] since the engine's start.
//!
//! A key is idle, queued, running, running with unserved events, or waiting for a time.
//!
//! - A key never runs twice at once. An event during a run makes it run again after it.
//! - Reasons of events are kept until a run takes them, each once.
//! - What a key has to do at a time is kept when an event runs it first, until the end of that run
//!   ([`FairQueue::finish`]) replaces it.
//! - An idle key, and one that is forgotten, costs nothing.
//!
//! # Lanes
//!
//! Inside a [lane](Lane) keys are served in the order they came. Between lanes a turn goes by share or
//! by age. *W* is the sum of the weights, *w* that of a lane. A lane is *ready* while it has a key in
//! line and its pace, if it has one, lets that key go. Whatever the other lanes hold:
//!
//! 1. **Share.** Of any 2(2*W* − *w*) dispatches during which it is ready, a lane gets at least *w*. A
//!    key with *q* keys of its lane before it is dispatched within 2(*W* − *w* + *W*⌈(*q*+1)/*w*⌉).
//! 2. **Age.** A lane whose head has been ready for half its bound is served within the next 8
//!    dispatches, and within the next 2 while no other lane is that late.
//!
//! So, whoever takes at least 16 keys in the time of a lane's bound never leaves that lane unserved for
//! longer than its bound while it is ready, however much is pushed; and a key of a lane that gets no
//! more than half its share of the work waits no longer than its place in the line demands. What
//! cannot be promised by any queue is that a lane which gets more than there is time for has no
//! backlog; as a key is in line once however many events it has, that backlog is at most the number
//! of objects.
//!
//! # Cost
//!
//! Every operation is O(1), plus O(log *t*) for each of *t* waiting keys that becomes due. The end of a
//! run costs the same however many keys are in line or in flight.

mod config;
mod fifo;
mod lanes;
mod machine;
mod pace;
mod reasons;
mod slots;
mod snapshot;
#[cfg(test)]
mod tests;
mod timers;
mod turns;
mod words;

use std::hash::Hash;
use std::time::Duration;

pub use self::config::{LaneConfig, QueueConfig};
pub use self::pace::LaneRate;
pub use self::reasons::RunReasons;
pub use self::snapshot::{QueuedKey, RunningKey, Snapshot, WaitingKey};
pub use self::words::{Dispatch, Lane, NextRun, RunCause, RunReason, RunTicket, WaitPolicy};

use self::fifo::SlotList;
use self::lanes::Lanes;
use self::machine::WaitCounts;
use self::slots::{KeyState, ScheduledRun, Slots};
use self::timers::Timers;
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

    /// An event. False if it joins others of this key that no run has served yet.
    ///
    /// A key that is queued moves up if this lane is more urgent; one that runs will run again; what
    /// happens to one that waits is up to its [`WaitPolicy`].
    pub fn push(&mut self, key: &K, lane: Lane, reason: RunReason, now: Duration) -> bool {
        self.advance(now);
        let slot = self.slots.find_or_insert(key);
        self.push_event(slot, lane, reason, RunCause::Event, now)
    }

    /// Ends the wait of a key whatever its hold: what it waited for is here. A key that runs will run
    /// again at once, whatever hold the end of that run asks for.
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

    /// What a failing key failed on may have changed: under [`WaitPolicy::SingleUseBody`] an event may run it again,
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
            ticket: RunTicket {
                slot,
                run: self.runs,
            },
            key: entry.key.clone(),
            lane: unserved.lane,
            reasons: unserved.reasons,
            waited: now.saturating_sub(unserved.since),
            by: unserved.by,
        })
    }

    /// A run is over. False if the ticket is not of a run that is going on; nothing happens then.
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

    /// The object is gone, and with it everything known of its key. A run that goes on ends without
    /// consequence; an event after this begins anew.
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

    /// The earliest moment at which [`pop`](Self::pop) may give something that it does not give now.
    /// `None`: not before something is pushed or finished.
    #[must_use]
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let moments = [self.timers.first(), self.lanes.next_ready()];
        moments.into_iter().flatten().min().map(|at| at.max(now))
    }

    /// Keys in line whose most urgent lane is `lane`.
    #[must_use]
    pub fn depth(&self, lane: Lane) -> usize {
        self.lanes.depth(lane)
    }

    /// For how long the head of `lane` has been in it.
    #[must_use]
    pub fn oldest(&self, lane: Lane, now: Duration) -> Option<Duration> {
        let entered = self.lanes.head(lane)?;
        Some(now.saturating_sub(entered))
    }

    /// Keys that wait for a time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waits.0.iter().sum()
    }

    /// Keys that wait to retry after a failure of `class`; with `None`, those that wait for anything
    /// else.
    #[must_use]
    pub fn waiting_after(&self, class: Option<ErrorClass>) -> usize {
        self.waits.0[WaitCounts::index(class)]
    }

    /// Keys that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// For how long the longest run has been going on.
    #[must_use]
    pub fn longest_run(&self, now: Duration) -> Option<Duration> {
        let (_, started) = self.running.front()?;
        Some(now.saturating_sub(started))
    }

    /// For how long all runs together have been going on.
    #[must_use]
    pub fn unfinished(&self, now: Duration) -> Duration {
        self.running.total_age(now)
    }

    /// Keys that are not idle.
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
