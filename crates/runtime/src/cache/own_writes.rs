//! Recognizes changes that are this process's own writes.
//!
//! A wrong "own" loses a foreign change, a wrong "foreign" costs one run: in doubt a change is foreign.
//! Pure except for the check for foreign fields, which the caller runs outside of any lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cache::store::{ChangeKind, Delivery, ObjectChange};
use crate::key::{ObjectKey, ResourceVersion};
use crate::view::View;

/// How long a write with an opaque version is remembered.
const OPAQUE_MEMORY: Duration = Duration::from_secs(60);

/// Whether anything differs between two watched states that this field manager did not write.
pub(super) type ForeignChangeFn<T> = Arc<dyn Fn(&T, &T, &str) -> bool + Send + Sync>;

/// A state that a response showed before the watch did, usually the response to a write of this process.
pub(super) struct RecordedWrite<T> {
    /// The object in the response.
    pub(super) object: Arc<T>,
    pub(super) version: ResourceVersion,
    /// The version that was read before.
    pub(super) base: Option<ResourceVersion>,
    /// No other change lies between `base` and `version`: the server would have rejected the
    /// write, or the writer has compared the two.
    pub(super) locked: bool,
    /// The field manager of the write; `None` for a state that was only read.
    pub(super) manager: Option<Arc<str>>,
    pub(super) at: Instant,
}

impl<T> RecordedWrite<T> {
    fn is_fresh(&self, now: Instant) -> bool {
        matches!(self.version, ResourceVersion::Number(_)) || now < self.at + OPAQUE_MEMORY
    }
}

/// The origin of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChangeOrigin {
    /// Made entirely by this manager of ours.
    Own(Arc<str>),
    Foreign,
    /// This manager wrote, but others may have written too; only a comparison of fields can decide.
    Unclear(Arc<str>),
}

/// A change and its origin.
pub(super) struct AttributedChange<T> {
    pub(super) change: ObjectChange<T>,
    pub(super) origin: ChangeOrigin,
}

impl<T> AttributedChange<T> {
    fn foreign(change: ObjectChange<T>) -> Self {
        let origin = ChangeOrigin::Foreign;
        Self { change, origin }
    }
}

/// The writes of this process, and the changes that wait for a response.
///
/// The event of a write often arrives before its response. So while a write to a key is pending, its
/// changes are held back until the response shows whether they are ours.
pub(super) struct OwnWrites<T> {
    writes: BTreeMap<ObjectKey, Vec<RecordedWrite<T>>>,
    in_flight: BTreeMap<ObjectKey, usize>,
    held_changes: BTreeMap<ObjectKey, Vec<ObjectChange<T>>>,
}

impl<T> Default for OwnWrites<T> {
    fn default() -> Self {
        Self {
            writes: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            held_changes: BTreeMap::new(),
        }
    }
}

impl<T: View> OwnWrites<T> {
    pub(super) fn begin_write(&mut self, key: &ObjectKey) {
        *self.in_flight.entry(key.clone()).or_default() += 1;
    }

    /// A write ended. Returns whether changes can be delivered now.
    pub(super) fn end_write(&mut self, key: &ObjectKey) -> bool {
        if let Some(count) = self.in_flight.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(key);
            }
        }
        !self.in_flight.contains_key(key) && self.held_changes.contains_key(key)
    }

    pub(super) fn is_holding(&self, key: &ObjectKey) -> bool {
        self.held_changes.contains_key(key)
    }

    pub(super) fn record(&mut self, key: &ObjectKey, write: RecordedWrite<T>) {
        let now = write.at;
        let writes = self.writes.entry(key.clone()).or_default();
        writes.retain(|old| old.is_fresh(now));
        // A state that was first recorded as a read may turn out to be our write, but not the reverse.
        let same = |other: &RecordedWrite<T>| other.version == write.version;
        if writes.iter().any(|other| same(other) && other.manager.is_some()) {
            return;
        }
        writes.retain(|other| !same(other));
        // Responses may overtake each other.
        let newer = |other: &RecordedWrite<T>| other.version.includes(&write.version) == Some(true);
        let at = writes.iter().position(newer).unwrap_or(writes.len());
        writes.insert(at, write);
    }

    /// Returns the change if it can be delivered, or holds it back until the pending write is answered.
    pub(super) fn release_or_hold(&mut self, change: ObjectChange<T>) -> Option<ObjectChange<T>> {
        if self.in_flight.contains_key(&change.key) || self.held_changes.contains_key(&change.key) {
            let held = self.held_changes.entry(change.key.clone()).or_default();
            held.push(change);
            return None;
        }
        Some(change)
    }

    /// The changes that no pending write holds back any more.
    pub(super) fn take_released(&mut self) -> Vec<ObjectChange<T>> {
        let under_way = &self.in_flight;
        let free = self.held_changes.extract_if(.., |key, _| !under_way.contains_key(key));
        free.flat_map(|(_, changes)| changes).collect()
    }

    /// Splits a change into steps, determines the origin of each, and forgets the writes it includes.
    pub(super) fn attribute(&mut self, change: ObjectChange<T>, told: &mut Vec<AttributedChange<T>>) {
        let (old, new) = match &change.step {
            ChangeKind::Changed { old, new } => (Some(old.clone()), new.clone()),
            ChangeKind::Added { new, initial: false } => (None, new.clone()),
            ChangeKind::Added { .. } | ChangeKind::Deleted { .. } | ChangeKind::Unreadable { .. } => {
                return told.push(AttributedChange::foreign(change));
            }
        };
        let Some(writes) = self.writes.get_mut(&change.key) else {
            return told.push(AttributedChange::foreign(change));
        };
        let key = change.key.clone();
        let version = version_of(&new);
        let whole = origin(writes, old.as_ref().map(version_of).as_ref(), &version, change.delivery);
        match old {
            Some(old) if !matches!(whole, ChangeOrigin::Own(_)) && change.delivery == Delivery::List => {
                attribute_steps(writes, old, new, &change, told);
            }
            _ => told.push(AttributedChange { change, origin: whole }),
        }
        writes.retain(|write| version.includes(&write.version) != Some(true));
        if writes.is_empty() {
            self.writes.remove(&key);
        }
    }

    /// The states known from responses up to `version`, the newest of each object.
    pub(super) fn known_states(&self, version: &ResourceVersion) -> impl Iterator<Item = (&ObjectKey, &Arc<T>)> {
        self.writes.iter().filter_map(move |(key, writes)| {
            let included = |write: &&RecordedWrite<T>| version.includes(&write.version) == Some(true);
            let newest = writes.iter().rev().find(included)?;
            Some((key, &newest.object))
        })
    }

    pub(super) fn is_in_flight(&self, key: &ObjectKey) -> bool {
        self.in_flight.contains_key(key)
    }

    /// Drops all writes, because they are not valid any more.
    pub(super) fn clear(&mut self) {
        self.writes.clear();
    }

    /// All changes up to `version` have been delivered. Also drops the writes of deleted objects whose
    /// versions cannot be compared; no later event would.
    pub(super) fn observe_version(&mut self, version: &ResourceVersion) {
        let (held, now) = (&self.held_changes, Instant::now());
        self.writes.retain(|key, writes| {
            if !held.contains_key(key) {
                writes.retain(|write| version.includes(&write.version) != Some(true) && write.is_fresh(now));
            }
            !writes.is_empty()
        });
    }
}

fn version_of<T: View>(object: &Arc<T>) -> ResourceVersion {
    object.meta().version()
}

/// A list shows only the end of several steps. A foreign step that reverts our write, or a state
/// that we have read in a response, looks like no change at all. So the known states are inserted in
/// between, and each is compared with the next.
fn attribute_steps<T: View>(
    writes: &[RecordedWrite<T>],
    old: Arc<T>,
    new: Arc<T>,
    change: &ObjectChange<T>,
    told: &mut Vec<AttributedChange<T>>,
) {
    let (first, last) = (version_of(&old), version_of(&new));
    let between = |write: &&RecordedWrite<T>| {
        let later = last.includes(&write.version) == Some(false);
        let earlier = first.includes(&write.version) == Some(true);
        !later && !earlier && write.version != last
    };
    let known = writes.iter().filter(between);
    let known = known.map(|write| write.object.clone());
    let mut old = old;
    for new in known.chain([new]) {
        let (before, version) = (version_of(&old), version_of(&new));
        let origin = origin(writes, Some(&before), &version, change.delivery);
        let step = ChangeKind::Changed { old, new: new.clone() };
        told.push(AttributedChange {
            change: change.with_step(step),
            origin,
        });
        old = new;
    }
}

fn origin<T>(
    writes: &[RecordedWrite<T>],
    old: Option<&ResourceVersion>,
    new: &ResourceVersion,
    delivery: Delivery,
) -> ChangeOrigin {
    let find = |version: &ResourceVersion| writes.iter().find(|write| write.version == *version);
    let Some(mut write) = find(new) else {
        return ChangeOrigin::Foreign;
    };
    let Some(manager) = write.manager.clone() else {
        return ChangeOrigin::Foreign;
    };
    // Without a lock the version may be another writer's: a write that changes nothing is answered with
    // the version it found. With a lock, the version is new and the stream shows no other step.
    if write.locked && delivery == Delivery::Stream {
        return ChangeOrigin::Own(manager);
    }
    // A list may hide several writes. They are ours if each was locked to the one before it.
    for _ in writes {
        if !write.locked || write.manager.as_ref() != Some(&manager) {
            break;
        }
        if write.base.as_ref() == old {
            return ChangeOrigin::Own(manager);
        }
        match write.base.as_ref().and_then(find) {
            Some(before) => write = before,
            None => break,
        }
    }
    if old.is_some() {
        ChangeOrigin::Unclear(manager)
    } else {
        ChangeOrigin::Foreign
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_whose_version_does_not_compare_is_dropped_in_time() {
        let mut own = OwnWrites::<ConfigMap>::default();
        let write = RecordedWrite {
            object: Arc::default(),
            version: ResourceVersion::parse("x"),
            base: None,
            locked: false,
            manager: None,
            at: Instant::now(),
        };
        own.record(&ObjectKey::new(Some("default"), "gone"), write);
        own.observe_version(&ResourceVersion::parse("y"));
        assert_eq!(own.writes.len(), 1);
        advance(OPAQUE_MEMORY).await;
        own.observe_version(&ResourceVersion::parse("z"));
        assert!(own.writes.is_empty());
    }
}
