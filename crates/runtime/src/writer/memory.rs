//! Records writes that the server does not store as sent: a quantity in another
//! notation, an empty list it drops. Without this such an object would be written on every pass.
//!
//! In this process only. After a restart it costs one needless apply per such object.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::key::ObjectRef;
use crate::managed_fields::{applied_entry, owned_fields};

/// Such objects are few; beyond this many, some are written once more.
const MAX_ENTRIES: usize = 65_536;

type MemoKey = (ObjectRef, Option<&'static str>);

/// The last writes that cannot be recognized from their result.
#[derive(Debug, Default)]
pub(crate) struct AppliedMemo(Mutex<BTreeMap<MemoKey, LastWrite>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastWrite {
    desired: u64,
    result: u64,
}

impl LastWrite {
    fn new(desired: &Value, live: &Value, manager: &str, subresource: Option<&str>) -> Self {
        Self {
            desired: digest(desired),
            result: digest(&owned_state(desired, live, manager, subresource)),
        }
    }
}

impl AppliedMemo {
    /// Whether `live` is still the result of writing `desired`.
    pub(crate) fn is_current(
        &self,
        object: &ObjectRef,
        subresource: Option<&'static str>,
        manager: &str,
        desired: &Value,
        live: &Value,
    ) -> bool {
        let place = (object.clone(), subresource);
        let last = self.lock().get(&place).copied();
        last.is_some_and(|last| last == LastWrite::new(desired, live, manager, subresource))
    }

    /// Records that writing `desired` changed `before` to `result`.
    ///
    /// A missing empty list or map is accepted only once a write has changed
    /// nothing: the server removes a list that it emptied, and creates it when it is applied again.
    pub(crate) fn memoize(
        &self,
        object: &ObjectRef,
        subresource: Option<&'static str>,
        manager: &str,
        desired: &Value,
        (before, result): (Option<&Value>, &Value),
    ) {
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let unchanged = before.is_some_and(|before| version(before) == version(result));
        let place = (object.clone(), subresource);
        if !unchanged && drops_empty_fields(desired, result) {
            self.lock().remove(&place);
            return;
        }
        let last = LastWrite::new(desired, result, manager, subresource);
        let mut kept = self.lock();
        kept.insert(place, last);
        while kept.len() > MAX_ENTRIES {
            kept.pop_first();
        }
    }

    /// Drops a deleted object.
    pub(crate) fn remove(&self, object: &ObjectRef) {
        let mut kept = self.lock();
        for subresource in [None, Some("status")] {
            kept.remove(&(object.clone(), subresource));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<MemoKey, LastWrite>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Our fields of an object and their values, and the values at places that leave no trace in
/// managedFields: only a change of these requires another write.
fn owned_state(desired: &Value, live: &Value, manager: &str, subresource: Option<&str>) -> Value {
    let owned = owned_fields(live, manager, subresource);
    json!({
        "fields": applied_entry(live, manager, subresource).map(|entry| &entry["fieldsV1"]),
        "values": owned.map_or_else(|| live.clone(), |owned| owned.extract(live)),
        "traceless": empty_fields(desired, live),
    })
}

/// The parts of `live` where `desired` has an empty list or map.
fn empty_fields(desired: &Value, live: &Value) -> Value {
    match desired {
        Value::Object(fields) if !fields.is_empty() => {
            let within = fields.iter().filter(|(_, inner)| has_empty_fields(inner));
            let parts = within.map(|(name, inner)| {
                let live = live.get(name).unwrap_or(&Value::Null);
                (name.clone(), empty_fields(inner, live))
            });
            Value::Object(parts.collect())
        }
        _ => live.clone(),
    }
}

/// Whether an empty list or map in `desired` is not empty in `result`.
fn drops_empty_fields(desired: &Value, result: &Value) -> bool {
    match (desired, result) {
        _ if !has_empty_fields(desired) || desired == result => false,
        (Value::Object(fields), Value::Object(result)) if !fields.is_empty() => fields
            .iter()
            .any(|(name, inner)| drops_empty_fields(inner, result.get(name).unwrap_or(&Value::Null))),
        (Value::Array(items), Value::Array(result)) if items.len() == result.len() => {
            let mut pairs = items.iter().zip(result);
            pairs.any(|(item, result)| drops_empty_fields(item, result))
        }
        _ => true,
    }
}

fn has_empty_fields(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty() || fields.values().any(has_empty_fields),
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty_fields),
        _ => false,
    }
}

/// A digest that is the same in every run, because `Value` has sorted maps.
fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::key::ObjectKey;

    fn object() -> ObjectRef {
        ObjectRef {
            kind: "Deployment".into(),
            key: ObjectKey::new(Some("team"), "a"),
        }
    }

    fn live(cpu: &str, replicas: i64, owned: &Value) -> Value {
        json!({
            "metadata": {"managedFields": [
                {"manager": "ours", "operation": "Apply", "fieldsV1": owned},
                {"manager": "theirs", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ]},
            "spec": {"cpu": cpu, "replicas": replicas},
        })
    }

    fn desired_object() -> Value {
        json!({"spec": {"cpu": "1000m"}})
    }

    fn cpu() -> Value {
        json!({"f:spec": {"f:cpu": {}}})
    }

    #[test]
    fn normalized_value_is_recognized() {
        let memory = AppliedMemo::default();
        let desired = desired_object();
        let holds = |desired: &Value, live: &Value| memory.is_current(&object(), None, "ours", desired, live);
        assert!(!holds(&desired, &live("1", 0, &cpu())));
        memory.memoize(&object(), None, "ours", &desired, (None, &live("1", 0, &cpu())));
        assert!(
            holds(&desired, &live("1", 3, &cpu())),
            "fields of other managers do not count"
        );
        assert!(!holds(&desired, &live("2", 0, &cpu())), "another value of ours");
        let other = json!({"spec": {"cpu": "2"}});
        assert!(!holds(&other, &live("1", 0, &cpu())), "another desired object");
    }

    #[test]
    fn lost_ownership_is_detected() {
        let memory = AppliedMemo::default();
        memory.memoize(
            &object(),
            None,
            "ours",
            &desired_object(),
            (None, &live("1", 0, &cpu())),
        );
        let lost = live("1", 0, &json!({}));
        assert!(!memory.is_current(&object(), None, "ours", &desired_object(), &lost));
    }

    #[test]
    fn deleted_object_is_removed() {
        let memory = AppliedMemo::default();
        let (status, live) = (Some("status"), live("1", 0, &cpu()));
        memory.memoize(&object(), status, "ours", &desired_object(), (None, &live));
        assert!(memory.is_current(&object(), status, "ours", &desired_object(), &live));
        memory.remove(&object());
        assert!(!memory.is_current(&object(), status, "ours", &desired_object(), &live));
    }
}
