//! What a run did to the objects, whoever did it: the log of writes and the state at the end.
//!
//! Counting creations and deletions per object finds faults that heal (a child deleted and made
//! again leaves the same end state).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use aplomb_apimachinery::object;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::{Change, Key};

/// Writes to one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often it was made.
    pub creates: u64,
    /// How often it was changed.
    pub updates: u64,
    /// How often it went.
    pub deletes: u64,
}

/// Every write to the store since the world began, or the newest of them. Cheap to clone; clones share the log.
#[derive(Clone, Debug, Default)]
pub struct WriteLog {
    changes: Arc<Mutex<VecDeque<Change>>>,
}

impl WriteLog {
    /// Keeps the last `limit` writes.
    pub(super) fn follow(server: &ApiServer, limit: usize) -> Self {
        let log = Self::default();
        let changes = log.changes.clone();
        server.on_commit(Arc::new(move |change| {
            let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            if changes.len() >= limit {
                changes.pop_front();
            }
            changes.push_back(change.clone());
        }));
        log
    }

    /// The writes, oldest first.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        self.changes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// How many writes there have been.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Creations, updates and deletions per object, named `resource.group/namespace/name`.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        for change in self.changes() {
            let count = counts.entry(name_of(&change.key)).or_default();
            match (&change.old, &change.new) {
                (None, _) => count.creates += 1,
                (Some(_), Some(_)) => count.updates += 1,
                (Some(_), None) => count.deletes += 1,
            }
        }
        counts
    }
}

/// Every stored object without what another order of the same writes would change: versions,
/// identities, times and field managers.
pub(super) fn masked_state(server: &ApiServer) -> BTreeMap<String, Value> {
    let mut state = BTreeMap::new();
    for resource in server.resources() {
        let objects = server.store().snapshot(&resource.storage).objects;
        for object in objects.into_values() {
            let key = Key {
                resource: resource.storage.clone(),
                namespace: object::namespace(&object).to_owned(),
                name: object::name(&object).to_owned(),
            };
            state.entry(name_of(&key)).or_insert_with(|| masked(&object));
        }
    }
    state
}

const MASKED: [&str; 4] = ["resourceVersion", "uid", "creationTimestamp", "managedFields"];

fn masked(object: &Value) -> Value {
    let mut object = object.clone();
    for member in MASKED {
        object::set_or_remove(&mut object, member, None);
    }
    object
}

fn name_of(key: &Key) -> String {
    format!("{}/{}/{}", key.resource, key.namespace, key.name)
}
