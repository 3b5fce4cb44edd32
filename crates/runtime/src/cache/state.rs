//! Everything a cache holds under its lock, kept in step: watched objects, overlay, own writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::event::Event;
use super::index::Values;
use super::overlay::Overlay;
use super::own::{Foreign, Origin, Own, Told, Write};
use super::store::{Change, Seen, Step, Store};
use super::writing::Made;
use crate::key::Key;
use crate::version::Version;
use crate::view::View;

/// What a watch has to say.
pub(crate) enum News<T> {
    /// An object was added or modified.
    Put(Seen<T>),
    /// An object was deleted, or left the scope of the watch.
    Gone(Seen<T>),
    /// Every object there is, at this version.
    All(Vec<Seen<T>>, Version),
    /// Nothing happened up to this version.
    Passed(Version),
}

impl<T: View> Told<T> {
    pub(super) fn event(self, foreign: Option<&Foreign<T>>) -> Event<T> {
        let origin = self.origin;
        match self.change.step {
            Step::Added { new, initial } => Event::Added {
                new,
                initial,
                own: match origin {
                    Origin::Own(manager) => Some(manager),
                    Origin::Foreign | Origin::Unclear(_) => None,
                },
            },
            Step::Changed { old, new } => {
                let own = match origin {
                    Origin::Own(manager) => Some(manager),
                    Origin::Foreign => None,
                    Origin::Unclear(manager) => foreign
                        .is_some_and(|foreign| !foreign(&old, &new, &manager))
                        .then_some(manager),
                };
                Event::Changed { old, new, own }
            }
            Step::Deleted { old } => Event::Deleted { old },
            Step::Unreadable { error, last } => Event::Unreadable {
                key: self.change.key,
                error,
                last,
            },
        }
    }
}

pub(super) struct State<T> {
    pub(super) store: Store<T>,
    pub(super) overlay: Overlay<T>,
    own: Own<T>,
}

impl<T: View> State<T> {
    pub(super) fn new() -> Self {
        Self {
            store: Store::new(),
            overlay: Overlay::new(),
            own: Own::default(),
        }
    }

    pub(super) fn index(&mut self, name: &str, values: Values<T>) {
        self.overlay.index(name, values.clone());
        self.store.index(name, values);
    }

    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<Arc<T>> {
        let watched = self.store.objects().get(key);
        self.overlay.look(key, watched, now)
    }

    pub(super) fn find(&self, index: &str, value: &str, now: Instant) -> Vec<Arc<T>> {
        // An own write may have moved an object out of the index or into it.
        let watched = self.store.objects().find(index, value);
        let watched = watched.filter(|key| !self.overlay.covers(key, now));
        let own = self.overlay.find(index, value);
        let own = own.filter(|key| self.overlay.covers(key, now));
        let keys: BTreeSet<&Key> = watched.chain(own).collect();
        keys.iter().filter_map(|key| self.get(key, now)).collect()
    }

    pub(super) fn take(&mut self, news: News<T>, now: Instant) -> Vec<Told<T>> {
        let mut changes = Vec::new();
        let mut passed = None;
        match news {
            News::Put(seen) => self.store.apply(seen, &mut changes),
            News::Gone(seen) => self.store.remove(&seen, &mut changes),
            News::All(all, version) => {
                let seen = self.store.version();
                if seen.is_some_and(|seen| version.includes(seen) == Some(false)) {
                    // Versions ran backwards, as after a restore: what we wrote is undone.
                    self.overlay.clear();
                    self.own.forget();
                }
                self.store.replace(all, version.clone(), &mut changes);
                self.miss(&version, &mut changes);
                passed = Some(version);
            }
            News::Passed(version) => {
                self.store.passed(version.clone());
                passed = Some(version);
            }
        }
        changes.iter().for_each(|change| self.uncover(change));
        let told = self.tell(changes);
        // Last, so that the writes are still known while their events are looked at.
        if let Some(version) = passed {
            self.overlay.passed(&version, now);
            self.own.passed(&version);
        }
        told
    }

    /// What an answer showed and a list does not is gone, although the watch never had it: somebody
    /// took back what we made.
    fn miss(&self, version: &Version, changes: &mut Vec<Change<T>>) {
        let told: BTreeSet<Key> = changes.iter().map(|change| change.key.clone()).collect();
        let known = self.own.known(version);
        let gone = known.filter(|(key, _)| self.store.known(key).is_none() && !told.contains(*key));
        changes.extend(gone.map(|(key, old)| Change::gone(key, old)));
    }

    pub(super) fn take_answered(&mut self) -> Vec<Told<T>> {
        let mut told = Vec::new();
        for change in self.own.freed() {
            self.own.tell(change, &mut told);
        }
        told
    }

    pub(super) fn begin(&mut self, key: &Key) {
        self.own.begin(key);
    }

    pub(super) fn end(&mut self, key: &Key) -> bool {
        self.own.end(key)
    }

    pub(super) fn wrote(&mut self, object: Arc<T>, made: Made, now: Instant) {
        let (key, version) = (object.meta().key(), object.meta().version());
        let shown = self.shows(&key, &version);
        // A write that changed nothing is answered with the version that was there.
        let effective = made.base.as_ref() != Some(&version);
        if effective && (!shown || self.own.holds(&key)) {
            let write = Write {
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
            // A list without it came before the answer.
            self.own.admit(Change::gone(&key, &object));
        }
    }

    /// The server showed `object` in answer to a read.
    pub(super) fn reread(&mut self, object: Arc<T>, now: Instant) {
        let (key, version) = (object.meta().key(), object.meta().version());
        if self.shows(&key, &version) {
            return;
        }
        // Remembered, so that a relist which hides that it was taken back can be seen through.
        let read = Write {
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

    pub(super) fn deleted(&mut self, key: &Key, uid: &str) {
        let watched = self.store.objects().get(key);
        let still_there = watched.is_some_and(|object| object.meta().uid == uid);
        if still_there || self.overlay.keys().any(|own| own == key) {
            self.overlay.deleted(key, uid);
        }
    }

    /// Whether the watch has shown the write that made `version`, be it that the object is gone since.
    fn shows(&self, key: &Key, version: &Version) -> bool {
        let known = self.store.known(key);
        let of_object = known.and_then(|known| known.includes(version));
        let of_all = self.store.version().and_then(|seen| seen.includes(version));
        of_object == Some(true) || of_all == Some(true)
    }

    fn uncover(&mut self, change: &Change<T>) {
        let key = &change.key;
        match &change.step {
            Step::Added { new, .. } | Step::Changed { new, .. } => self.overlay.saw(key, new),
            Step::Deleted { .. } | Step::Unreadable { .. } => {
                if let Some(version) = self.store.version() {
                    self.overlay.saw_none(key, version);
                }
            }
        }
    }

    fn tell(&mut self, changes: Vec<Change<T>>) -> Vec<Told<T>> {
        let mut told = Vec::with_capacity(changes.len());
        for change in changes {
            if let Some(change) = self.own.admit(change) {
                self.own.tell(change, &mut told);
            }
        }
        told
    }
}
