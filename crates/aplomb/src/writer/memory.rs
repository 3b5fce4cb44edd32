//! What was last written where the server does not keep it as sent: a quantity it spells
//! otherwise, an empty list it drops. Without this such an object would be written on every pass.
//!
//! Of this process only. After a restart it costs one needless apply per such object.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::key::ObjectId;
use crate::managed::applied_entry;

/// Odd objects are few; beyond this many, some are written once more.
const MOST: usize = 65_536;

/// Bookkeeping that moves without anything having changed.
const BOOKKEEPING: [&str; 3] = ["managedFields", "resourceVersion", "generation"];

type Place = (ObjectId, Option<&'static str>);

/// The last writes that cannot be recognised from their result.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<BTreeMap<Place, Last>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    desired: u64,
    result: u64,
}

impl Last {
    fn new(desired: &Value, live: &Value, manager: &str, subresource: Option<&str>) -> Self {
        Self {
            desired: digest(desired),
            result: digest(&essence(live, manager, subresource)),
        }
    }
}

impl Memory {
    /// Whether `live` is still what came of writing `desired`.
    pub(crate) fn holds(
        &self,
        object: &ObjectId,
        subresource: Option<&'static str>,
        manager: &str,
        desired: &Value,
        live: &Value,
    ) -> bool {
        let place = (object.clone(), subresource);
        let last = self.lock().get(&place).copied();
        last.is_some_and(|last| last == Last::new(desired, live, manager, subresource))
    }

    /// Remembers that writing `desired` made `live`.
    pub(crate) fn keep(
        &self,
        object: &ObjectId,
        subresource: Option<&'static str>,
        manager: &str,
        desired: &Value,
        live: &Value,
    ) {
        let last = Last::new(desired, live, manager, subresource);
        let mut kept = self.lock();
        kept.insert((object.clone(), subresource), last);
        while kept.len() > MOST {
            kept.pop_first();
        }
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, object: &ObjectId) {
        let mut kept = self.lock();
        for subresource in [None, Some("status")] {
            kept.remove(&(object.clone(), subresource));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of an object that a write of ours to `subresource` can touch, and what we own of it:
/// a heartbeat in the status must not make the spec look changed.
fn essence(live: &Value, manager: &str, subresource: Option<&str>) -> Value {
    let owned = applied_entry(live, manager, subresource).map(|entry| entry["fieldsV1"].clone());
    let mut essence = live.clone();
    if let Value::Object(fields) = &mut essence {
        match subresource {
            Some(part) => fields.retain(|name, _| name == part),
            None => drop(fields.remove("status")),
        }
        if let Some(Value::Object(meta)) = fields.get_mut("metadata") {
            meta.retain(|name, _| !BOOKKEEPING.contains(&name.as_str()));
        }
        fields.insert("owned".to_owned(), owned.unwrap_or_default());
    }
    essence
}

/// A digest that is the same in every run, which `Value`'s sorted maps make possible.
fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::key::Key;

    fn object() -> ObjectId {
        ObjectId {
            kind: "Deployment".into(),
            key: Key::new(Some("team"), "a"),
        }
    }

    fn live(cpu: &str, ready: i64, version: &str) -> Value {
        json!({"metadata": {"resourceVersion": version}, "spec": {"cpu": cpu}, "status": {"ready": ready}})
    }

    #[test]
    fn what_the_server_spells_otherwise_is_recognised() {
        let memory = Memory::default();
        let desired = json!({"spec": {"cpu": "1000m"}});
        let holds =
            |desired: &Value, live: &Value| memory.holds(&object(), None, "ours", desired, live);
        assert!(!holds(&desired, &live("1", 0, "5")));
        memory.keep(&object(), None, "ours", &desired, &live("1", 0, "5"));
        assert!(
            holds(&desired, &live("1", 3, "6")),
            "a heartbeat is no change"
        );
        assert!(!holds(&desired, &live("2", 3, "7")), "another value is");
        assert!(!holds(&json!({"spec": {"cpu": "2"}}), &live("1", 0, "5")));
    }

    #[test]
    fn an_ownership_that_was_lost_is_noticed() {
        let memory = Memory::default();
        let mut owned = live("1", 0, "5");
        let entry = json!([{"manager": "ours", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
        owned["metadata"]["managedFields"] = entry;
        memory.keep(&object(), None, "ours", &json!({}), &owned);
        assert!(!memory.holds(&object(), None, "ours", &json!({}), &live("1", 0, "6")));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let memory = Memory::default();
        memory.keep(
            &object(),
            Some("status"),
            "ours",
            &json!({}),
            &live("1", 0, "5"),
        );
        memory.forget(&object());
        assert!(!memory.holds(
            &object(),
            Some("status"),
            "ours",
            &json!({}),
            &live("1", 0, "5")
        ));
    }
}
