//! Writes of this process that the watch has not shown yet, on top of the watched state.
//!
//! Pure. It determines only what a reader sees: events come from the watch alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::index::{IndexFn, IndexedObjects};
use super::store::OWNER_INDEX;
use crate::key::ObjectKey;
use crate::version::ResourceVersion;
use crate::view::View;

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
        objects.index(OWNER_INDEX, Arc::new(super::store::owner_uids));
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
