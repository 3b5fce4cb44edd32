//! The complete state of a cache under its lock: watched objects, overlay, own writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::event::CacheEvent;
use super::index::IndexFn;
use super::overlay::Overlay;
use super::own::{AttributedChange, ChangeOrigin, ForeignChangeFn, OwnWrites, RecordedWrite};
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
    Gone(DecodedObject<T>),
    /// All objects, at this version.
    All(Vec<DecodedObject<T>>, ResourceVersion),
    /// Nothing changed up to this version.
    Passed(ResourceVersion),
}

impl<T: View> AttributedChange<T> {
    pub(super) fn event(self, foreign: Option<&ForeignChangeFn<T>>) -> CacheEvent<T> {
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
    own: OwnWrites<T>,
}

impl<T: View> CacheState<T> {
    pub(super) fn new() -> Self {
        Self {
            store: ObjectStore::new(),
            overlay: Overlay::new(),
            own: OwnWrites::default(),
        }
    }

    pub(super) fn index(&mut self, name: &str, values: IndexFn<T>) {
        self.overlay.index(name, values.clone());
        self.store.index(name, values);
    }

    pub(super) fn get(&self, key: &ObjectKey, now: Instant) -> Option<Arc<T>> {
        let watched = self.store.objects().get(key);
        self.overlay.look(key, watched, now)
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

    pub(super) fn take(&mut self, news: WatchUpdate<T>, now: Instant) -> Vec<AttributedChange<T>> {
        let mut changes = Vec::new();
        let mut passed = None;
        match news {
            WatchUpdate::Put(seen) => self.store.apply(seen, &mut changes),
            WatchUpdate::Gone(seen) => self.store.remove(&seen, &mut changes),
            WatchUpdate::All(all, version) => {
                let seen = self.store.version();
                if seen.is_some_and(|seen| version.includes(seen) == Some(false)) {
                    // Versions went backwards, as after a restore: our writes are undone.
                    self.overlay.clear();
                    self.own.forget();
                }
                self.store.replace(all, version.clone(), &mut changes);
                self.miss(&version, &mut changes);
                passed = Some(version);
            }
            WatchUpdate::Passed(version) => {
                self.store.passed(version.clone());
                passed = Some(version);
            }
        }
        changes.iter().for_each(|change| self.uncover(change));
        let told = self.tell(changes);
        // Last, so that the writes are still known while their events are processed.
        if let Some(version) = passed {
            self.overlay.passed(&version, now);
            self.own.passed(&version);
        }
        told
    }

    /// An object known from a response but missing in a list was deleted, although the watch never showed
    /// it: another writer deleted what we created.
    fn miss(&self, version: &ResourceVersion, changes: &mut Vec<ObjectChange<T>>) {
        let told: BTreeSet<ObjectKey> = changes.iter().map(|change| change.key.clone()).collect();
        let known = self.own.known(version);
        let gone = known.filter(|(key, _)| self.store.known(key).is_none() && !told.contains(*key));
        changes.extend(gone.map(|(key, old)| ObjectChange::gone(key, old)));
    }

    pub(super) fn take_answered(&mut self) -> Vec<AttributedChange<T>> {
        let mut told = Vec::new();
        for change in self.own.freed() {
            self.own.tell(change, &mut told);
        }
        told
    }

    pub(super) fn begin(&mut self, key: &ObjectKey) {
        self.own.begin(key);
    }

    pub(super) fn end(&mut self, key: &ObjectKey) -> bool {
        self.own.end(key)
    }

    pub(super) fn wrote(&mut self, object: Arc<T>, made: WriteReceipt, now: Instant) {
        let (key, version) = (object.meta().key(), object.meta().version());
        let shown = self.shows(&key, &version);
        // A write that changed nothing is answered with the existing version.
        let effective = made.base.as_ref() != Some(&version);
        if effective && (!shown || self.own.holds(&key)) {
            let write = RecordedWrite {
                object: object.clone(),
                version,
                base: made.base,
                locked: made.locked,
                manager: Some(made.manager),
                at: now,
            };
            self.own.record(&key, write);
        }
        if !shown {
            self.overlay.wrote(object, now);
        } else if self.store.known(&key).is_none()
            && self.own.is_under_way(&key)
            && !self.own.holds(&key)
        {
            // A list without it was made before the response.
            self.own.admit(ObjectChange::gone(&key, &object));
        }
    }

    /// The server returned `object` for a read.
    pub(super) fn reread(&mut self, object: Arc<T>, now: Instant) {
        let (key, version) = (object.meta().key(), object.meta().version());
        if self.shows(&key, &version) {
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
        self.own.record(&key, read);
        self.overlay.wrote(object, now);
    }

    pub(super) fn deleted(&mut self, key: &ObjectKey, uid: &str) {
        let watched = self.store.objects().get(key);
        let still_there = watched.is_some_and(|object| object.meta().uid == uid);
        if still_there || self.overlay.keys().any(|own| own == key) {
            self.overlay.deleted(key, uid);
        }
    }

    /// Whether the watch has shown the write that made `version`, or a later deletion.
    fn shows(&self, key: &ObjectKey, version: &ResourceVersion) -> bool {
        let known = self.store.known(key);
        let of_object = known.and_then(|known| known.includes(version));
        let of_all = self.store.version().and_then(|seen| seen.includes(version));
        of_object == Some(true) || of_all == Some(true)
    }

    fn uncover(&mut self, change: &ObjectChange<T>) {
        let key = &change.key;
        match &change.step {
            ChangeKind::Added { new, .. } | ChangeKind::Changed { new, .. } => {
                self.overlay.saw(key, new)
            }
            ChangeKind::Deleted { .. } | ChangeKind::Unreadable { .. } => {
                if let Some(version) = self.store.version() {
                    self.overlay.saw_none(key, version);
                }
            }
        }
    }

    fn tell(&mut self, changes: Vec<ObjectChange<T>>) -> Vec<AttributedChange<T>> {
        let mut told = Vec::with_capacity(changes.len());
        for change in changes {
            if let Some(change) = self.own.admit(change) {
                self.own.tell(change, &mut told);
            }
        }
        told
    }
}
