//! The state of each key that is not idle. An idle key costs nothing: it has no slot.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{Lane, NextRun, RunCause, RunReason, RunReasons, WaitPolicy};

/// The states of a key. Idle is the absence of a slot; running with unserved events is also known as
/// dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    Queued,
    Running {
        run: u64,
        /// The object was deleted in the meantime: the result of this run is ignored.
        forgotten: bool,
    },
    Waiting,
}

/// Events that no run has served yet.
#[derive(Debug)]
pub(super) struct PendingEvents {
    /// When the first of them came.
    pub(super) since: Duration,
    /// The most urgent of their lanes.
    pub(super) lane: Lane,
    pub(super) reasons: RunReasons,
    pub(super) by: RunCause,
}

/// A scheduled run of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduledRun {
    pub(super) due: Duration,
    pub(super) lane: Lane,
    pub(super) reason: RunReason,
    pub(super) hold: WaitPolicy,
    /// The one event that may run the key early has come.
    pub(super) event_used: bool,
}

impl ScheduledRun {
    /// The schedule after a run that ended with `next`, if `before` was scheduled before it.
    #[inline]
    pub(super) fn after_run(before: Option<Box<Self>>, next: NextRun) -> Option<Box<Self>> {
        let spent = |before: Box<Self>| before.hold == WaitPolicy::OneEvent && before.event_used;
        match next {
            NextRun::Idle => None,
            NextRun::Scheduled {
                due,
                lane,
                reason,
                hold,
            } => Some(Box::new(Self {
                due,
                lane,
                reason,
                hold,
                // If the run that used it up also renewed it, events could run a failing key
                // without end.
                event_used: hold == WaitPolicy::OneEvent && before.is_some_and(spent),
            })),
        }
    }

    /// Lets one more event run the key.
    pub(super) fn reset_event_allowance(&mut self) {
        self.event_used = false;
    }

    #[inline]
    fn admit_event(&mut self) -> bool {
        match self.hold {
            WaitPolicy::AnyEvent => true,
            WaitPolicy::OneEvent => !std::mem::replace(&mut self.event_used, true),
            WaitPolicy::NoEvent => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Slot<K> {
    pub(super) key: K,
    hash: u32,
    pub(super) state: KeyState,
    pub(super) pending: Option<PendingEvents>,
    // Rare and large, therefore boxed.
    pub(super) scheduled: Option<Box<ScheduledRun>>,
}

impl<K> Slot<K> {
    /// Records an event, and returns the most urgent lane.
    pub(super) fn record_event(&mut self, lane: Lane, reason: RunReason, by: RunCause, now: Duration) -> Lane {
        let unserved = self.pending.get_or_insert_with(|| PendingEvents {
            since: now,
            lane,
            reasons: RunReasons::default(),
            by,
        });
        // A run that became due during a run is recorded after it, behind later events.
        unserved.since = unserved.since.min(now);
        unserved.lane = unserved.lane.min(lane);
        unserved.by = unserved.by.max(by);
        unserved.reasons.add(reason);
        unserved.lane
    }

    /// Whether an event may run the key now, which may use up its allowance.
    pub(super) fn admit_event(&mut self) -> bool {
        self.scheduled.as_mut().is_none_or(|it| it.admit_event())
    }
}

/// The slot of a key. The hash is stored too, so that neither growing nor removing reads
/// a key.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    hash: u32,
    slot: u32,
}

/// How many keys leave the table together: each is a cache miss, and together they overlap.
const REMOVE_BATCH: usize = 8;

/// The table takes the bucket from the low bits and a tag from the high ones.
fn spread_hash(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[derive(Debug)]
pub(super) struct Slots<K> {
    /// Used only for lookups, never iterated: its order is random.
    entries: HashTable<TableEntry>,
    hasher: DefaultHashBuilder,
    slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
    /// Slots that are empty but still in the table.
    removed: Vec<TableEntry>,
}

impl<K: Clone + Eq + Hash> Slots<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            slots: Vec::new(),
            free: Vec::new(),
            removed: Vec::with_capacity(REMOVE_BATCH),
        }
    }

    pub(super) fn find(&self, key: &K) -> Option<u32> {
        self.find_hashed(key, self.hash(key))
    }

    /// The slot of `key`, a new one if it has none.
    pub(super) fn find_or_insert(&mut self, key: &K) -> u32 {
        let hash = self.hash(key);
        match self.find_hashed(key, hash) {
            Some(slot) => slot,
            None => self.insert(key.clone(), hash),
        }
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Slot<K>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Slot<K>> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Removes a key that is idle.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(entry) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let Some(hash) = entry.as_ref().map(|entry| entry.hash) else {
            return;
        };
        *entry = None;
        self.removed.push(TableEntry { hash, slot });
        if self.removed.len() >= REMOVE_BATCH {
            self.flush_removed();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.removed.len()
    }

    fn flush_removed(&mut self) {
        for gone in self.removed.drain(..) {
            let same = |place: &TableEntry| place.slot == gone.slot;
            if let Ok(place) = self.entries.find_entry(spread_hash(gone.hash), same) {
                place.remove();
            }
            self.free.push(gone.slot);
        }
    }

    fn hash(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        (hash ^ (hash >> 32)) as u32
    }

    fn find_hashed(&self, key: &K, hash: u32) -> Option<u32> {
        let same = |place: &TableEntry| place.hash == hash && self.get(place.slot).is_some_and(|slot| slot.key == *key);
        self.entries.find(spread_hash(hash), same).map(|place| place.slot)
    }

    fn insert(&mut self, key: K, hash: u32) -> u32 {
        let entry = Some(Slot {
            key,
            hash,
            state: KeyState::Waiting,
            pending: None,
            scheduled: None,
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 keys at once")
            }
        };
        let place = TableEntry { hash, slot };
        self.entries
            .insert_unique(spread_hash(hash), place, |place| spread_hash(place.hash));
        slot
    }
}
