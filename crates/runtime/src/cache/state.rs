//! The complete state of a cache under its lock: watched objects, overlay, own writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::event::CacheEvent;
use super::index::IndexFn;
use super::overlay::Overlay;
use super::own_writes::{AttributedChange, ChangeOrigin, ForeignChangeFn, OwnWrites, RecordedWrite};
use super::store::{ChangeKind, DecodedObject, ObjectChange, ObjectStore};
use super::writing::WriteReceipt;
use crate::key::ObjectKey;
use crate::version::ResourceVersion;
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
