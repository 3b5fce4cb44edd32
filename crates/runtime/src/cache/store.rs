//! The watched state: exactly what the watch has shown, with a change for every step.
//!
//! Pure: no clock, no lock, no listener. Writes of this process are in `overlay`.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::key::{ObjectKey, ResourceVersion};
use crate::view::View;

/// The index of every cache: objects by the UIDs of their owners.
pub(super) const OWNER_INDEX: &str = "aplomb/owner-uid";

/// How a state was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// On a stream, which shows every single version of an object in order.
    Stream,
    /// In a list, which shows the newest version and hides those before it.
    List,
}

/// An object as the server sent it: readable by the view, or not.
pub(crate) enum DecodedObject<T> {
    /// It fits the view.
    Object(Arc<T>),
    /// It does not fit the view.
    Unreadable(UndecodableObject),
}

impl<T: View> DecodedObject<T> {
    /// The version in which it was seen, as the server sent it.
    pub(crate) fn version(&self) -> String {
        match self {
            Self::Object(object) => object.meta().version.to_owned(),
            Self::Unreadable(misfit) => misfit.version.to_string(),
        }
    }
}

/// The known parts of an object that does not fit the view.
#[derive(Clone, Debug)]
pub(crate) struct UndecodableObject {
    pub(crate) key: ObjectKey,
    pub(crate) version: ResourceVersion,
    pub(crate) error: String,
}

/// One step of the watched state of one object.
#[derive(Debug)]
pub(crate) struct ObjectChange<T> {
    pub(crate) key: ObjectKey,
    pub(crate) delivery: Delivery,
    pub(crate) step: ChangeKind<T>,
}

impl<T> ObjectChange<T> {
    /// A list shows that an object known from a response was deleted.
    pub(super) fn deleted(key: &ObjectKey, old: &Arc<T>) -> Self {
        Self {
            key: key.clone(),
            delivery: Delivery::List,
            step: ChangeKind::Deleted { old: old.clone() },
        }
    }

    /// Another step of the same object, with the same delivery.
    pub(super) fn with_step(&self, step: ChangeKind<T>) -> Self {
        Self {
            key: self.key.clone(),
            delivery: self.delivery,
            step,
        }
    }
}

#[derive(Debug)]
pub(crate) enum ChangeKind<T> {
    Added { new: Arc<T>, initial: bool },
    Changed { old: Arc<T>, new: Arc<T> },
    Deleted { old: Arc<T> },
    Unreadable { error: String, last: Option<Arc<T>> },
}

/// The last readable state, kept but not shown: it is out of date, and decisions on it would be
/// wrong without notice. It is used to find the changes once the object is readable again.
struct SetAside<T> {
    last: Option<Arc<T>>,
    undecodable: UndecodableObject,
}

/// The watched objects.
pub(super) struct ObjectStore<T> {
    objects: IndexedObjects<T>,
    unreadable: BTreeMap<ObjectKey, SetAside<T>>,
    namespaces: BTreeSet<Arc<str>>,
    listed: bool,
    /// All changes up to it have been seen.
    version: Option<ResourceVersion>,
}

impl<T: View> ObjectStore<T> {
    pub(super) fn new() -> Self {
        let mut objects = IndexedObjects::default();
        objects.index(OWNER_INDEX, Arc::new(owner_uids));
        Self {
            objects,
            unreadable: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            listed: false,
            version: None,
        }
    }

    pub(super) fn objects(&self) -> &IndexedObjects<T> {
        &self.objects
    }

    pub(super) fn index(&mut self, name: &str, values: IndexFn<T>) {
        self.objects.index(name, values);
    }

    pub(super) fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// Why the object cannot be read, if it exists and cannot be read.
    pub(super) fn unreadable(&self, key: &ObjectKey) -> Option<&str> {
        self.unreadable.get(key).map(|aside| aside.undecodable.error.as_str())
    }

    /// A list, an event or a bookmark shows that all changes up to `version` have been seen.
    pub(super) fn observe_version(&mut self, version: ResourceVersion) {
        let older = self
            .version
            .as_ref()
            .is_some_and(|seen| seen.includes(&version) == Some(true));
        if !older {
            self.version = Some(version);
        }
    }

    /// Applies an added or modified object.
    pub(super) fn apply(&mut self, seen: DecodedObject<T>, changes: &mut Vec<ObjectChange<T>>) {
        self.put(seen, Delivery::Stream, changes);
    }

    /// Applies a deletion, with the last state of the object.
    pub(super) fn remove(&mut self, seen: &DecodedObject<T>, changes: &mut Vec<ObjectChange<T>>) {
        let (key, version) = self.identify(seen);
        self.observe_version(version.clone());
        let newer = self.known_version(&key).filter(|known| *known != version);
        if newer.is_none_or(|known| known.includes(&version) != Some(true)) {
            self.remove_object(key, Delivery::Stream, changes);
        }
    }

    /// Applies the complete state at `version`: missing objects are deleted, unchanged ones give no event.
    pub(super) fn replace(
        &mut self,
        all: Vec<DecodedObject<T>>,
        version: ResourceVersion,
        changes: &mut Vec<ObjectChange<T>>,
    ) {
        let mut gone: BTreeSet<ObjectKey> = self.objects.iter().map(|(key, _)| key.clone()).collect();
        gone.extend(self.unreadable.keys().cloned());
        for seen in all {
            let (key, _) = self.identify(&seen);
            gone.remove(&key);
            self.put(seen, Delivery::List, changes);
        }
        for key in gone {
            self.remove_object(key, Delivery::List, changes);
        }
        self.listed = true;
        self.namespaces.retain(|namespace| Arc::strong_count(namespace) > 1);
        // A list is the current state even if versions went backwards, as after a restore of etcd.
        self.version = Some(version);
    }

    fn put(&mut self, seen: DecodedObject<T>, delivery: Delivery, changes: &mut Vec<ObjectChange<T>>) {
        let (key, version) = self.identify(&seen);
        if delivery == Delivery::Stream {
            self.observe_version(version.clone());
        }
        if self.is_known(&key, &version, delivery) {
            return;
        }
        match seen {
            DecodedObject::Object(new) => self.put_object(&key, new, delivery, changes),
            DecodedObject::Unreadable(misfit) => self.set_aside(key, misfit, delivery, changes),
        }
    }

    fn put_object(&mut self, key: &ObjectKey, new: Arc<T>, delivery: Delivery, changes: &mut Vec<ObjectChange<T>>) {
        let aside = self.unreadable.remove(key).and_then(|aside| aside.last);
        let old = self.objects.insert(key.clone(), new.clone()).or(aside);
        let initial = !self.listed;
        let mut push = |step| {
            let key = key.clone();
            changes.push(ObjectChange { key, delivery, step });
        };
        match old {
            Some(old) if old.meta().uid == new.meta().uid => push(ChangeKind::Changed { old, new }),
            Some(old) => {
                push(ChangeKind::Deleted { old });
                push(ChangeKind::Added { new, initial });
            }
            None => push(ChangeKind::Added { new, initial }),
        }
    }

    fn set_aside(
        &mut self,
        key: ObjectKey,
        misfit: UndecodableObject,
        delivery: Delivery,
        changes: &mut Vec<ObjectChange<T>>,
    ) {
        let before = self.unreadable.remove(&key).and_then(|aside| aside.last);
        let last = self.objects.remove(&key).or(before);
        let error = misfit.error.clone();
        let step = ChangeKind::Unreadable {
            error,
            last: last.clone(),
        };
        self.unreadable.insert(
            key.clone(),
            SetAside {
                last,
                undecodable: misfit,
            },
        );
        changes.push(ObjectChange { key, delivery, step });
    }

    fn remove_object(&mut self, key: ObjectKey, delivery: Delivery, changes: &mut Vec<ObjectChange<T>>) {
        let aside = self.unreadable.remove(&key);
        let unreadable = aside.is_some();
        let last = self.objects.remove(&key);
        let step = match last.or(aside.and_then(|aside| aside.last)) {
            Some(old) => ChangeKind::Deleted { old },
            None if unreadable => ChangeKind::Unreadable {
                error: "deleted before it could be read".to_owned(),
                last: None,
            },
            // A deletion of an object that was never shown changes nothing.
            None => return,
        };
        changes.push(ObjectChange { key, delivery, step });
    }

    /// A resumed stream may repeat events, and a list repeats unchanged objects.
    fn is_known(&self, key: &ObjectKey, version: &ResourceVersion, delivery: Delivery) -> bool {
        self.known_version(key).is_some_and(|known| match delivery {
            Delivery::Stream => known.includes(version) == Some(true),
            Delivery::List => known == *version,
        })
    }

    /// The last version of the object that was seen.
    pub(super) fn known_version(&self, key: &ObjectKey) -> Option<ResourceVersion> {
        let of_object = self.objects.get(key).map(|object| object.meta().version());
        of_object.or_else(|| {
            let aside = self.unreadable.get(key)?;
            Some(aside.undecodable.version.clone())
        })
    }

    fn identify(&mut self, seen: &DecodedObject<T>) -> (ObjectKey, ResourceVersion) {
        match seen {
            DecodedObject::Object(object) => {
                let meta = object.meta();
                let namespace = meta.namespace.map(|namespace| self.intern_namespace(namespace));
                let name = Arc::from(meta.name);
                (ObjectKey { namespace, name }, meta.version())
            }
            DecodedObject::Unreadable(misfit) => (misfit.key.clone(), misfit.version.clone()),
        }
    }

    /// Namespaces are few and objects are many: each name is stored once.
    fn intern_namespace(&mut self, namespace: &str) -> Arc<str> {
        if let Some(known) = self.namespaces.get(namespace) {
            return known.clone();
        }
        let new: Arc<str> = Arc::from(namespace);
        self.namespaces.insert(new.clone());
        new
    }
}

pub(super) fn owner_uids<T: View>(object: &T) -> Vec<String> {
    let owners = object.meta().owners.iter();
    owners.map(|owner| owner.uid.clone()).collect()
}

/// The values that an object is found by.
pub(super) type IndexFn<T> = Arc<dyn Fn(&T) -> Vec<String> + Send + Sync>;

/// The keys of objects by the values that a function reads from each.
struct Index<T> {
    values: IndexFn<T>,
    keys: BTreeMap<Box<str>, BTreeSet<ObjectKey>>,
}

impl<T> Index<T> {
    fn new(values: IndexFn<T>) -> Self {
        Self {
            values,
            keys: BTreeMap::new(),
        }
    }

    fn insert(&mut self, key: &ObjectKey, object: &T) {
        self.add_values(key, (self.values)(object));
    }

    fn remove(&mut self, key: &ObjectKey, object: &T) {
        self.remove_values(key, (self.values)(object));
    }

    /// Most changes keep the values, and then the tree is not touched.
    fn replace(&mut self, key: &ObjectKey, old: &T, new: &T) {
        let (old, new) = ((self.values)(old), (self.values)(new));
        if old != new {
            self.remove_values(key, old);
            self.add_values(key, new);
        }
    }

    fn add_values(&mut self, key: &ObjectKey, values: Vec<String>) {
        for value in values {
            let keys = self.keys.entry(value.into_boxed_str()).or_default();
            keys.insert(key.clone());
        }
    }

    fn remove_values(&mut self, key: &ObjectKey, values: Vec<String>) {
        for value in values {
            let Some(keys) = self.keys.get_mut(value.as_str()) else {
                continue;
            };
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(value.as_str());
            }
        }
    }

    fn find(&self, value: &str) -> impl Iterator<Item = &ObjectKey> {
        self.keys.get(value).into_iter().flatten()
    }
}

/// Objects by key, with their indexes.
pub(super) struct IndexedObjects<T> {
    objects: BTreeMap<ObjectKey, Arc<T>>,
    indexes: BTreeMap<Box<str>, Index<T>>,
}

impl<T> Default for IndexedObjects<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            indexes: BTreeMap::new(),
        }
    }
}

impl<T> IndexedObjects<T> {
    /// Adds an index. The first function under a name is kept.
    pub(super) fn index(&mut self, name: &str, values: IndexFn<T>) {
        if self.indexes.contains_key(name) {
            return;
        }
        let mut index = Index::new(values);
        for (key, object) in &self.objects {
            index.insert(key, object);
        }
        self.indexes.insert(name.into(), index);
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    pub(super) fn insert(&mut self, key: ObjectKey, object: Arc<T>) -> Option<Arc<T>> {
        let Some(slot) = self.objects.get_mut(&key) else {
            for index in self.indexes.values_mut() {
                index.insert(&key, &object);
            }
            return self.objects.insert(key, object);
        };
        let old = mem::replace(slot, object);
        for index in self.indexes.values_mut() {
            index.replace(&key, &old, slot);
        }
        Some(old)
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        let old = self.objects.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(old)
    }

    /// The keys that an index has under `value`, in order; none for an unknown index.
    pub(super) fn find(&self, index: &str, value: &str) -> impl Iterator<Item = &ObjectKey> {
        let index = self.indexes.get(index);
        index.into_iter().flat_map(move |index| index.find(value))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<T>)> {
        self.objects.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}
