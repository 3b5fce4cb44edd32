//! The complete state of a cache under its lock: watched objects, overlay, own writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cache::WriteReceipt;
use crate::cache::event::CacheEvent;
use crate::cache::own_writes::{AttributedChange, ChangeOrigin, ForeignChangeFn, OwnWrites, RecordedWrite};
use crate::cache::store::{ChangeKind, DecodedObject, IndexFn, IndexedObjects, OWNER_INDEX, ObjectChange, ObjectStore};
use crate::key::{ObjectKey, ResourceVersion};
use crate::view::View;

/// An update from the watch.
pub(crate) enum WatchUpdate<T> {
    /// An object was added or modified.
    Put(DecodedObject<T>),
    /// An object was deleted, or left the scope of the watch.
    Deleted(DecodedObject<T>),
    /// All objects, at this version.
    Relisted(Vec<DecodedObject<T>>, ResourceVersion),
    /// Nothing changed up to this version.
    Bookmark(ResourceVersion),
}

impl<T: View> AttributedChange<T> {
    pub(super) fn into_event(self, foreign: Option<&ForeignChangeFn<T>>) -> CacheEvent<T> {
        let origin = self.origin;
        match self.change.step {
            ChangeKind::Added { new, initial } => CacheEvent::Added {
                new,
                initial,
                own: match origin {
                    ChangeOrigin::Own(manager) => Some(manager),
                    ChangeOrigin::Foreign | ChangeOrigin::Unclear(_) => None,
                },
            },
            ChangeKind::Changed { old, new } => {
                let own = match origin {
                    ChangeOrigin::Own(manager) => Some(manager),
                    ChangeOrigin::Foreign => None,
                    ChangeOrigin::Unclear(manager) => foreign
                        .is_some_and(|foreign| !foreign(&old, &new, &manager))
                        .then_some(manager),
                };
                CacheEvent::Changed { old, new, own }
            }
            ChangeKind::Deleted { old } => CacheEvent::Deleted { old },
            ChangeKind::Unreadable { error, last } => CacheEvent::Unreadable {
                key: self.change.key,
                error,
                last,
            },
        }
    }
}

pub(super) struct CacheState<T> {
    pub(super) store: ObjectStore<T>,
    pub(super) overlay: Overlay<T>,
    own_writes: OwnWrites<T>,
}

impl<T: View> CacheState<T> {
    pub(super) fn new() -> Self {
        Self {
            store: ObjectStore::new(),
            overlay: Overlay::new(),
            own_writes: OwnWrites::default(),
        }
    }

    pub(super) fn index(&mut self, name: &str, values: IndexFn<T>) {
        self.overlay.index(name, values.clone());
        self.store.index(name, values);
    }

    pub(super) fn get(&self, key: &ObjectKey, now: Instant) -> Option<Arc<T>> {
        let watched = self.store.objects().get(key);
        self.overlay.read(key, watched, now)
    }

    pub(super) fn find(&self, index: &str, value: &str, now: Instant) -> Vec<Arc<T>> {
        // An own write may have moved an object out of the index or into it.
        let watched = self.store.objects().find(index, value);
        let watched = watched.filter(|key| !self.overlay.covers(key, now));
        let own = self.overlay.find(index, value);
        let own = own.filter(|key| self.overlay.covers(key, now));
        let keys: BTreeSet<&ObjectKey> = watched.chain(own).collect();
        keys.iter().filter_map(|key| self.get(key, now)).collect()
    }

    pub(super) fn apply_update(&mut self, news: WatchUpdate<T>, now: Instant) -> Vec<AttributedChange<T>> {
        let mut changes = Vec::new();
        let mut passed = None;
        match news {
            WatchUpdate::Put(seen) => self.store.apply(seen, &mut changes),
            WatchUpdate::Deleted(seen) => self.store.remove(&seen, &mut changes),
            WatchUpdate::Relisted(all, version) => {
                let seen = self.store.version();
                if seen.is_some_and(|seen| version.includes(seen) == Some(false)) {
                    // Versions went backwards, as after a restore: our writes are undone.
                    self.overlay.clear();
                    self.own_writes.clear();
                }
                self.store.replace(all, version.clone(), &mut changes);
                self.remove_missing(&version, &mut changes);
                passed = Some(version);
            }
            WatchUpdate::Bookmark(version) => {
                self.store.observe_version(version.clone());
                passed = Some(version);
            }
        }
        changes.iter().for_each(|change| self.clear_overlay(change));
        let told = self.attribute(changes);
        // Last, so that the writes are still known while their events are processed.
        if let Some(version) = passed {
            self.overlay.observe_version(&version, now);
            self.own_writes.observe_version(&version);
        }
        told
    }

    /// An object known from a response but missing in a list was deleted, although the watch never showed
    /// it: another writer deleted what we created.
    fn remove_missing(&self, version: &ResourceVersion, changes: &mut Vec<ObjectChange<T>>) {
        let told: BTreeSet<ObjectKey> = changes.iter().map(|change| change.key.clone()).collect();
        let known = self.own_writes.known_states(version);
        let gone = known.filter(|(key, _)| self.store.known_version(key).is_none() && !told.contains(*key));
        changes.extend(gone.map(|(key, old)| ObjectChange::deleted(key, old)));
    }

    pub(super) fn take_held_events(&mut self) -> Vec<AttributedChange<T>> {
        let mut told = Vec::new();
        for change in self.own_writes.take_released() {
            self.own_writes.attribute(change, &mut told);
        }
        told
    }

    pub(super) fn begin_write(&mut self, key: &ObjectKey) {
        self.own_writes.begin_write(key);
    }

    pub(super) fn end_write(&mut self, key: &ObjectKey) -> bool {
        self.own_writes.end_write(key)
    }

    pub(super) fn record_write(&mut self, object: Arc<T>, made: WriteReceipt, now: Instant) {
        let (key, version) = (object.meta().key(), object.meta().version());
        let shown = self.includes_version(&key, &version);
        // A write that changed nothing is answered with the existing version.
        let effective = made.base.as_ref() != Some(&version);
        if effective && (!shown || self.own_writes.is_holding(&key)) {
            let write = RecordedWrite {
                object: object.clone(),
                version,
                base: made.base,
                locked: made.locked,
                manager: Some(made.manager),
                at: now,
            };
            self.own_writes.record(&key, write);
        }
        if !shown {
            self.overlay.record_write(object, now);
        } else if self.store.known_version(&key).is_none()
            && self.own_writes.is_in_flight(&key)
            && !self.own_writes.is_holding(&key)
        {
            // A list without it was made before the response.
            self.own_writes.release_or_hold(ObjectChange::deleted(&key, &object));
        }
    }

    /// The server returned `object` for a read.
    pub(super) fn record_read(&mut self, object: Arc<T>, now: Instant) {
        let (key, version) = (object.meta().key(), object.meta().version());
        if self.includes_version(&key, &version) {
            return;
        }
        // Recorded, so that a revert is noticed even if a relist hides it.
        let read = RecordedWrite {
            object: object.clone(),
            version,
            base: None,
            locked: false,
            manager: None,
            at: now,
        };
        self.own_writes.record(&key, read);
        self.overlay.record_write(object, now);
    }

    pub(super) fn record_delete(&mut self, key: &ObjectKey, uid: &str) {
        let watched = self.store.objects().get(key);
        let still_there = watched.is_some_and(|object| object.meta().uid == uid);
        if still_there || self.overlay.keys().any(|own| own == key) {
            self.overlay.record_delete(key, uid);
        }
    }

    /// Whether the watch has shown the write that made `version`, or a later deletion.
    fn includes_version(&self, key: &ObjectKey, version: &ResourceVersion) -> bool {
        let known = self.store.known_version(key);
        let of_object = known.and_then(|known| known.includes(version));
        let of_all = self.store.version().and_then(|seen| seen.includes(version));
        of_object == Some(true) || of_all == Some(true)
    }

    fn clear_overlay(&mut self, change: &ObjectChange<T>) {
        let key = &change.key;
        match &change.step {
            ChangeKind::Added { new, .. } | ChangeKind::Changed { new, .. } => self.overlay.observe(key, new),
            ChangeKind::Deleted { .. } | ChangeKind::Unreadable { .. } => {
                if let Some(version) = self.store.version() {
                    self.overlay.observe_absence(key, version);
                }
            }
        }
    }

    fn attribute(&mut self, changes: Vec<ObjectChange<T>>) -> Vec<AttributedChange<T>> {
        let mut told = Vec::with_capacity(changes.len());
        for change in changes {
            if let Some(change) = self.own_writes.release_or_hold(change) {
                self.own_writes.attribute(change, &mut told);
            }
        }
        told
    }
}

/// How long a write is kept if versions cannot be compared, because it is unknown when the watch has shown it.
const OPAQUE_LIFETIME: Duration = Duration::from_secs(30);

struct Kept {
    version: ResourceVersion,
    expires: Option<Instant>,
}

/// Own writes and deletions in the order of their keys.
pub(super) struct Overlay<T> {
    objects: IndexedObjects<T>,
    kept: BTreeMap<ObjectKey, Kept>,
    /// UIDs of deleted objects.
    tombstones: BTreeMap<ObjectKey, Box<str>>,
}

impl<T: View> Overlay<T> {
    pub(super) fn new() -> Self {
        let mut objects = IndexedObjects::default();
        objects.index(OWNER_INDEX, Arc::new(crate::cache::store::owner_uids));
        Self {
            objects,
            kept: BTreeMap::new(),
            tombstones: BTreeMap::new(),
        }
    }

    pub(super) fn index(&mut self, name: &str, values: IndexFn<T>) {
        self.objects.index(name, values);
    }

    /// A write was answered with `object`. Responses may overtake each other: the newest is kept.
    pub(super) fn record_write(&mut self, object: Arc<T>, now: Instant) {
        self.expire(now);
        let (key, version) = (object.meta().key(), object.meta().version());
        let newer = self.kept.get(&key);
        if newer.is_some_and(|kept| kept.version.includes(&version) == Some(true)) {
            return;
        }
        let expires = match version {
            ResourceVersion::Number(_) => None,
            ResourceVersion::Opaque(_) => Some(now + OPAQUE_LIFETIME),
        };
        self.kept.insert(key.clone(), Kept { version, expires });
        self.objects.insert(key, object);
    }

    /// The object with this UID was deleted. Readers no longer see it, but do see a later object of that name.
    pub(super) fn record_delete(&mut self, key: &ObjectKey, uid: &str) {
        let same = |object: &Arc<T>| object.meta().uid == uid;
        if self.objects.get(key).is_some_and(same) {
            self.drop(key);
        }
        self.tombstones.insert(key.clone(), uid.into());
    }

    /// The watch has shown `object`.
    pub(super) fn observe(&mut self, key: &ObjectKey, object: &T) {
        let meta = object.meta();
        self.drop_if_observed(key, &meta.version());
        let buried = self.tombstones.get(key);
        // While finalizers run, the deleted object still exists and readers see its state.
        if buried.is_some_and(|uid| meta.deleting || **uid != *meta.uid) {
            self.tombstones.remove(key);
        }
    }

    /// The watch has shown that the object does not exist or cannot be read, as of `version`.
    pub(super) fn observe_absence(&mut self, key: &ObjectKey, version: &ResourceVersion) {
        self.drop_if_observed(key, version);
        self.tombstones.remove(key);
    }

    /// All changes up to `version` have been shown.
    pub(super) fn observe_version(&mut self, version: &ResourceVersion, now: Instant) {
        self.expire(now);
        let passed = |kept: &&Kept| version.includes(&kept.version) == Some(true);
        let all: Vec<ObjectKey> = self
            .kept
            .iter()
            .filter(|(_, kept)| passed(kept))
            .map(|(key, _)| key.clone())
            .collect();
        all.iter().for_each(|key| self.drop(key));
    }

    /// Drops all writes, because they are not valid any more.
    pub(super) fn clear(&mut self) {
        let all: Vec<ObjectKey> = self.kept.keys().cloned().collect();
        all.iter().for_each(|key| self.drop(key));
        self.tombstones.clear();
    }

    /// What a reader sees of `key`, given its watched state.
    pub(super) fn read(&self, key: &ObjectKey, watched: Option<&Arc<T>>, now: Instant) -> Option<Arc<T>> {
        let shown = self.own_write(key, now).or(watched)?;
        let buried = self.tombstones.get(key);
        let visible = buried.is_none_or(|uid| **uid != *shown.meta().uid);
        visible.then(|| shown.clone())
    }

    /// The keys for which readers may see another state than the watched one.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.kept.keys()
    }

    pub(super) fn find(&self, index: &str, value: &str) -> impl Iterator<Item = &ObjectKey> {
        self.objects.find(index, value)
    }

    /// Whether a write of this process hides the watched state of `key`.
    pub(super) fn covers(&self, key: &ObjectKey, now: Instant) -> bool {
        self.own_write(key, now).is_some()
    }

    fn own_write(&self, key: &ObjectKey, now: Instant) -> Option<&Arc<T>> {
        let kept = self.kept.get(key)?;
        let alive = kept.expires.is_none_or(|expires| now < expires);
        self.objects.get(key).filter(|_| alive)
    }

    fn drop_if_observed(&mut self, key: &ObjectKey, version: &ResourceVersion) {
        let kept = self.kept.get(key);
        if kept.is_some_and(|kept| version.includes(&kept.version) == Some(true)) {
            self.drop(key);
        }
    }

    fn expire(&mut self, now: Instant) {
        let dead = |kept: &&Kept| kept.expires.is_some_and(|expires| expires <= now);
        let all: Vec<ObjectKey> = self
            .kept
            .iter()
            .filter(|(_, kept)| dead(kept))
            .map(|(key, _)| key.clone())
            .collect();
        all.iter().for_each(|key| self.drop(key));
    }

    fn drop(&mut self, key: &ObjectKey) {
        self.kept.remove(key);
        self.objects.remove(key);
    }
}
