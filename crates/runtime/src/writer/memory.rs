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
use crate::managed::{applied_entry, owned_fields};

/// Such objects are few; beyond this many, some are written once more.
const MOST: usize = 65_536;

type Place = (ObjectRef, Option<&'static str>);

/// The last writes that cannot be recognized from their result.
#[derive(Debug, Default)]
pub(crate) struct AppliedMemo(Mutex<BTreeMap<Place, Last>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    desired: u64,
    result: u64,
}

impl Last {
    fn new(desired: &Value, live: &Value, manager: &str, subresource: Option<&str>) -> Self {
        Self {
            desired: digest(desired),
            result: digest(&essence(desired, live, manager, subresource)),
        }
    }
}

impl AppliedMemo {
    /// Whether `live` is still the result of writing `desired`.
    pub(crate) fn holds(
        &self,
        object: &ObjectRef,
        subresource: Option<&'static str>,
        manager: &str,
        desired: &Value,
        live: &Value,
    ) -> bool {
        let place = (object.clone(), subresource);
        let last = self.lock().get(&place).copied();
        last.is_some_and(|last| last == Last::new(desired, live, manager, subresource))
    }

    /// Records that writing `desired` changed `before` to `result`.
    ///
    /// A missing empty list or map is accepted only once a write has changed
    /// nothing: the server removes a list that it emptied, and creates it when it is applied again.
    pub(crate) fn keep(
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
        if !unchanged && lacks_empty(desired, result) {
            self.lock().remove(&place);
            return;
        }
        let last = Last::new(desired, result, manager, subresource);
        let mut kept = self.lock();
        kept.insert(place, last);
        while kept.len() > MOST {
            kept.pop_first();
        }
    }

    /// Drops a deleted object.
    pub(crate) fn forget(&self, object: &ObjectRef) {
        let mut kept = self.lock();
        for subresource in [None, Some("status")] {
            kept.remove(&(object.clone(), subresource));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Our fields of an object and their values, and the values at places that leave no trace in
/// managedFields: only a change of these requires another write.
fn essence(desired: &Value, live: &Value, manager: &str, subresource: Option<&str>) -> Value {
    let owned = owned_fields(live, manager, subresource);
    json!({
        "fields": applied_entry(live, manager, subresource).map(|entry| &entry["fieldsV1"]),
        "values": owned.map_or_else(|| live.clone(), |owned| owned.extract(live)),
        "traceless": traceless(desired, live),
    })
}

/// The parts of `live` where `desired` has an empty list or map.
fn traceless(desired: &Value, live: &Value) -> Value {
    match desired {
        Value::Object(fields) if !fields.is_empty() => {
            let within = fields.iter().filter(|(_, inner)| has_empty(inner));
            let parts = within.map(|(name, inner)| {
                let live = live.get(name).unwrap_or(&Value::Null);
                (name.clone(), traceless(inner, live))
            });
            Value::Object(parts.collect())
        }
        _ => live.clone(),
    }
}

/// Whether an empty list or map in `desired` is not empty in `result`.
fn lacks_empty(desired: &Value, result: &Value) -> bool {
    match (desired, result) {
        _ if !has_empty(desired) || desired == result => false,
        (Value::Object(fields), Value::Object(result)) if !fields.is_empty() => fields
            .iter()
            .any(|(name, inner)| lacks_empty(inner, result.get(name).unwrap_or(&Value::Null))),
        (Value::Array(items), Value::Array(result)) if items.len() == result.len() => {
            let mut pairs = items.iter().zip(result);
            pairs.any(|(item, result)| lacks_empty(item, result))
        }
        _ => true,
    }
}

fn has_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty() || fields.values().any(has_empty),
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty),
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

    fn wish() -> Value {
        json!({"spec": {"cpu": "1000m"}})
    }

    fn cpu() -> Value {
        json!({"f:spec": {"f:cpu": {}}})
    }

    #[test]
    fn what_the_server_spells_otherwise_is_recognised() {
        let memory = AppliedMemo::default();
        let desired = wish();
        let holds =
            |desired: &Value, live: &Value| memory.holds(&object(), None, "ours", desired, live);
        assert!(!holds(&desired, &live("1", 0, &cpu())));
        memory.keep(
            &object(),
            None,
            "ours",
            &desired,
            (None, &live("1", 0, &cpu())),
        );
        assert!(
            holds(&desired, &live("1", 3, &cpu())),
            "fields of other managers do not count"
        );
        assert!(
            !holds(&desired, &live("2", 0, &cpu())),
            "another value of ours"
        );
        let other = json!({"spec": {"cpu": "2"}});
        assert!(!holds(&other, &live("1", 0, &cpu())), "another desired object");
    }

    #[test]
    fn an_ownership_that_was_lost_is_noticed() {
        let memory = AppliedMemo::default();
        memory.keep(
            &object(),
            None,
            "ours",
            &wish(),
            (None, &live("1", 0, &cpu())),
        );
        let lost = live("1", 0, &json!({}));
        assert!(!memory.holds(&object(), None, "ours", &wish(), &lost));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let memory = AppliedMemo::default();
        let (status, live) = (Some("status"), live("1", 0, &cpu()));
        memory.keep(&object(), status, "ours", &wish(), (None, &live));
        assert!(memory.holds(&object(), status, "ours", &wish(), &live));
        memory.forget(&object());
        assert!(!memory.holds(&object(), status, "ours", &wish(), &live));
    }
}
