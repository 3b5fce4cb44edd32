//! What is known of each key that is not idle. An idle key costs nothing: it has no slot.

#[expect(
    clippy::disallowed_types,
    reason = "only asked for one key at a time, never iterated"
)]
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use super::{Cause, Hold, Lane, Next, Reason, Reasons};

/// The states of a key. Idle is the absence of a slot; running with unserved events is what the
/// literature calls dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Running {
        run: u64,
        /// The object went away meanwhile: what this run answers is about nothing.
        forgotten: bool,
    },
    Waiting,
}

/// Events that no run has served yet.
#[derive(Debug)]
pub(super) struct Unserved {
    /// Since the first of them.
    pub(super) since: Duration,
    /// The most urgent of their lanes.
    pub(super) lane: Lane,
    pub(super) reasons: Reasons,
    pub(super) by: Cause,
}

/// What a key has to do at a known time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Obligation {
    pub(super) due: Duration,
    pub(super) lane: Lane,
    pub(super) reason: Reason,
    pub(super) hold: Hold,
    /// The one event that may come first has come.
    pub(super) spent: bool,
}

impl Obligation {
    /// What is to be done after a run that ended with `next`, before which `before` was to be done.
    pub(super) fn after(before: Option<Self>, next: Next) -> Option<Self> {
        let spent = |before: Self| before.hold == Hold::Once && before.spent;
        match next {
            Next::Idle => None,
            Next::Keep => before,
            Next::At {
                due,
                lane,
                reason,
                hold,
            } => Some(Self {
                due,
                lane,
                reason,
                hold,
                // Were it renewed by the very run that used it up, events could run a failing key
                // without end.
                spent: hold == Hold::Once && before.is_some_and(spent),
            }),
        }
    }

    fn admits(&mut self) -> bool {
        match self.hold {
            Hold::Open => true,
            Hold::Once => !std::mem::replace(&mut self.spent, true),
            Hold::Shut => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Slot<K> {
    pub(super) key: K,
    pub(super) state: State,
    pub(super) unserved: Option<Unserved>,
    pub(super) obligation: Option<Obligation>,
}

impl<K> Slot<K> {
    /// Remembers an event, and says which is now the most urgent lane.
    pub(super) fn note(&mut self, lane: Lane, reason: Reason, by: Cause, now: Duration) -> Lane {
        let unserved = self.unserved.get_or_insert_with(|| Unserved {
            since: now,
            lane,
            reasons: Reasons::default(),
            by,
        });
        // What became due during a run is noted after the run, behind later events.
        unserved.since = unserved.since.min(now);
        unserved.lane = unserved.lane.min(lane);
        unserved.by = unserved.by.max(by);
        unserved.reasons.note(reason);
        unserved.lane
    }

    /// Whether an event may run the key now, which may use up its allowance.
    pub(super) fn admits_event(&mut self) -> bool {
        self.obligation.as_mut().is_none_or(Obligation::admits)
    }
}

#[derive(Debug)]
#[expect(
    clippy::disallowed_types,
    reason = "only asked for one key at a time, never iterated"
)]
pub(super) struct Slots<K> {
    by_key: HashMap<K, u32>,
    slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
}

impl<K: Clone + Eq + Hash> Slots<K> {
    #[expect(
        clippy::disallowed_types,
        reason = "only asked for one key at a time, never iterated"
    )]
    pub(super) fn new() -> Self {
        Self {
            by_key: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn find(&self, key: &K) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Slot<K>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Slot<K>> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// A slot for a key that has none.
    pub(super) fn insert(&mut self, key: &K) -> u32 {
        let slot = Slot {
            key: key.clone(),
            state: State::Waiting,
            unserved: None,
            obligation: None,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 keys at once")
            }
        };
        self.by_key.insert(key.clone(), index);
        index
    }

    /// The key is idle.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(gone) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.by_key.remove(&gone.key);
        self.free.push(slot);
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}
