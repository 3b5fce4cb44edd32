//! Lookups by something other than the name. Updated by the store; never read from the server.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::key::ObjectKey;

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
