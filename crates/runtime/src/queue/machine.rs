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
            let due = entry.and_then(|entry| entry.obligation.as_deref().copied());
            let due = due.expect("a timer belongs to an obligation");
            self.event(slot, due.lane, due.reason, RunCause::Due, due.due);
            if let Some(entry) = self.slots.get_mut(slot) {
                entry.obligation = None;
            }
        }
    }

    pub(super) fn event(
        &mut self,
        slot: u32,
        lane: Lane,
        reason: RunReason,
        by: RunCause,
        now: Duration,
    ) -> bool {
        let entry = self.slots.get_mut(slot).expect("the caller found it");
        let before = entry.unserved.as_ref().map(|unserved| unserved.lane);
        let lane_now = entry.note(lane, reason, by, now);
        match (entry.state, before) {
            (KeyState::Queued, Some(from)) if lane_now < from => {
                self.lanes.promote(slot, from, lane_now, now);
            }
            (KeyState::Waiting, _) if by == RunCause::Due || entry.admits_event() => {
                if let Some(obligation) = &entry.obligation {
                    self.waits.sub(obligation.reason);
                }
                entry.state = KeyState::Queued;
                self.lanes.join(slot, lane_now, now);
            }
            _ => {}
        }
        before.is_none()
    }

    /// The next state of a key after its run: queued, waiting or idle.
    pub(super) fn settle(&mut self, slot: u32, now: Duration) {
        let entry = self.slots.get_mut(slot).expect("the caller found it");
        let unserved = entry.unserved.as_ref().map(|it| (it.lane, it.by));
        if unserved.is_some_and(|(_, by)| by == RunCause::Due) {
            entry.obligation = None;
        }
        match unserved {
            Some((lane, _)) if entry.admits_event() => {
                entry.state = KeyState::Queued;
                self.lanes.join(slot, lane, now);
            }
            _ => entry.state = KeyState::Waiting,
        }
        match &entry.obligation {
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
