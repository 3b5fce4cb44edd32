//! The same write as last time, but for its times, to an object that nobody has written since.
//!
//! What such a write leads to is known: the object as it is, with the new times in it, and the time of
//! its writer among the managed fields. So it is stored without going through the verbs again, which
//! is what lets a thousand nodes beat for a day. Whatever is not known to be so goes through them.

use std::sync::Arc;

use serde_json::Value;

use aplomb_apimachinery::object;
use aplomb_apiserver::server::ApiServer;
use aplomb_apiserver::storage::Key;

/// One object that is written again and again.
pub(super) struct Touch {
    pub(super) key: Key,
    /// What the last write left behind.
    last: Option<Arc<Value>>,
}

impl Touch {
    pub(super) fn new(key: Key) -> Self {
        Self { key, last: None }
    }

    /// Remembers what a write through the verbs has left behind.
    pub(super) fn written(&mut self, server: &ApiServer) {
        let stored = server.store().get(&self.key);
        self.last = stored.filter(|object| owner_is_last(object));
    }

    /// Stores the object as `change` makes it, which moves times alone. Whether that was possible.
    pub(super) fn again(&mut self, server: &ApiServer, change: impl FnOnce(&mut Value)) -> bool {
        let Some(last) = self.last.take() else {
            return false;
        };
        let stored = server.store().get(&self.key);
        if !stored.is_some_and(|stored| Arc::ptr_eq(&stored, &last)) {
            return false;
        }
        let mut object = Value::clone(&last);
        change(&mut object);
        set_time(&mut object, &server.clock().now_seconds());
        // Nobody can have come between: nothing was awaited since the object was read.
        self.last = server.store().commit(&self.key, Some(&last), Some(object)).ok();
        self.last.is_some()
    }
}

/// Entries are in the order of their times: the newest is last, and stays there.
fn owner_is_last(object: &Value) -> bool {
    let last = managers(object).and_then(|managers| managers.last());
    last.is_some_and(|entry| entry["manager"] == "kubelet" && entry["operation"] == "Update")
}

fn set_time(object: &mut Value, now: &str) {
    let managers = object::metadata_mut(object).get_mut("managedFields");
    let entry = managers.and_then(|managers| managers.as_array_mut()?.last_mut());
    if let Some(entry) = entry {
        entry["time"] = now.into();
    }
}

fn managers(object: &Value) -> Option<&Vec<Value>> {
    object::metadata(object)?.get("managedFields")?.as_array()
}
