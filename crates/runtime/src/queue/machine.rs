//! The transitions of a key between its states. The states themselves are in `slots`.

use std::hash::Hash;
use std::time::Duration;

use super::slots::KeyState;
use super::{FairQueue, Lane, RunCause, RunReason};
use crate::error::ErrorClass;

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
