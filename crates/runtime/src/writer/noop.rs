//! Whether applying an object again would change nothing, derived from the fields its manager owns, and a
//! record of the writes that the server does not store as sent.
//!
//! Without a schema: managedFields show which lists have keys. In doubt the result is no, which costs one
//! request that the server itself makes a no-op.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::key::ObjectRef;
use crate::managed_fields::{FieldSet, FieldStep, ItemKey, applied_entry, owned_by_others, owned_fields};
use crate::support::seed_of;

/// Whether `manager` owns exactly the fields of `desired`, each with the same value in `live`.
pub(crate) fn is_converged(desired: &Value, live: &Value, manager: &str, subresource: Option<&str>) -> bool {
    // Fields may have different names in another version.
    let same_version =
        applied_entry(live, manager, subresource).is_some_and(|entry| entry["apiVersion"] == desired["apiVersion"]);
    let (Some(mine), Some(others)) = (
        owned_fields(live, manager, subresource),
        owned_by_others(live, manager, subresource),
    ) else {
        return false;
    };
    let place = OwnedValue {
        live,
        own: &mine,
        others: Some(&others),
    };
    same_version && members_match(&ownable_fields(desired), &place)
}

/// An object without the fields that no manager can own.
fn ownable_fields(desired: &Value) -> Value {
    let mut opinion = desired.clone();
    if let Value::Object(fields) = &mut opinion {
        fields.remove("apiVersion");
        fields.remove("kind");
        let empty = fields
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .is_some_and(|meta| {
                for unowned in ["name", "namespace", "uid", "resourceVersion"] {
                    meta.remove(unowned);
                }
                meta.is_empty()
            });
        if empty {
            fields.remove("metadata");
        }
    }
    opinion
}

/// One place in an object: its value and the owners of its parts.
struct OwnedValue<'a> {
    live: &'a Value,
    own: &'a FieldSet,
    others: Option<&'a FieldSet>,
}

impl<'a> OwnedValue<'a> {
    fn child(&self, step: &FieldStep, live: &'a Value) -> Option<Self> {
        Some(Self {
            live,
            own: self.own.child(step)?,
            others: self.others.and_then(|others| others.child(step)),
        })
    }
}

fn is_same(desired: &Value, place: &OwnedValue<'_>) -> bool {
    if place.own.is_leaf() {
        // Owned whole, unless others own parts of it; then it was empty when we applied.
        return desired == place.live && place.others.is_none_or(FieldSet::is_leaf);
    }
    match desired {
        Value::Object(_) => members_match(desired, place),
        Value::Array(wanted) => items_match(wanted, place),
        _ => false,
    }
}

fn members_match(desired: &Value, place: &OwnedValue<'_>) -> bool {
    let Some(wanted) = desired.as_object() else {
        return false;
    };
    wanted.len() == place.own.steps().len()
        && wanted.iter().all(|(name, value)| {
            let below = place
                .live
                .get(name)
                .and_then(|live| place.child(&FieldStep::field(name), live));
            below.is_some_and(|below| is_same(value, &below))
        })
}

/// Whether every item is ours and at its place: an apply keeps the order of applied items.
fn items_match(wanted: &[Value], place: &OwnedValue<'_>) -> bool {
    let Some(live) = place.live.as_array() else {
        return false;
    };
    if wanted.len() != place.own.steps().len() {
        return false;
    }
    let Some(places) = item_positions(live, place.own) else {
        return false;
    };
    let mut last = None;
    wanted.iter().all(|item| {
        let Some(step) = desired_item_step(item, place.own) else {
            return false;
        };
        let Some(at) = places.get(&step).copied() else {
            return false;
        };
        let in_order = last.is_none_or(|last| last < at);
        last = Some(at);
        in_order && place.child(&step, &live[at]).is_some_and(|below| is_same(item, &below))
    })
}

/// The position of each item that we own; `None` if two have the same name.
fn item_positions(live: &[Value], mine: &FieldSet) -> Option<BTreeMap<FieldStep, usize>> {
    let mut places = BTreeMap::new();
    for (at, item) in live.iter().enumerate() {
        let Some(step) = item_step(item, mine) else {
            continue;
        };
        if mine.child(&step).is_some() && places.insert(step, at).is_some() {
            return None;
        }
    }
    Some(places)
}

/// The step to an item, by the fields in the steps of `mine`.
fn item_step(item: &Value, mine: &FieldSet) -> Option<FieldStep> {
    match mine.steps().next()?.0 {
        FieldStep::Item(keys) => FieldStep::item(item, keys.keys().map(|name| &**name)),
        FieldStep::Member(_) => Some(FieldStep::Member(ItemKey::from_value(item))),
        FieldStep::Field(_) | FieldStep::Index(_) => None,
    }
}

/// The step to a wanted item. If it leaves out a key, it means the default, which only the server
/// can fill in: then it matches a single item of ours that fits.
fn desired_item_step(item: &Value, mine: &FieldSet) -> Option<FieldStep> {
    if let Some(step) = item_step(item, mine) {
        return Some(step);
    }
    let fits = |step: &FieldStep| match step {
        FieldStep::Item(keys) => keys
            .iter()
            .all(|(name, value)| item.get(&**name).is_none_or(|wanted| value.matches(wanted))),
        _ => false,
    };
    let mut fitting = mine.steps().map(|(step, _)| step).filter(|step| fits(step));
    let step = fitting.next()?;
    fitting.next().is_none().then(|| step.clone())
}

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
        let last = self.0.lock().get(&place).copied();
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
            self.0.lock().remove(&place);
            return;
        }
        let last = LastWrite::new(desired, result, manager, subresource);
        let mut kept = self.0.lock();
        kept.insert(place, last);
        while kept.len() > MAX_ENTRIES {
            kept.pop_first();
        }
    }

    /// Drops a deleted object.
    pub(crate) fn remove(&self, object: &ObjectRef) {
        let mut kept = self.0.lock();
        for subresource in [None, Some("status")] {
            kept.remove(&(object.clone(), subresource));
        }
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

/// The same in every run, because `Value` has sorted maps.
fn digest(value: &Value) -> u64 {
    seed_of(&value.to_string())
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
