//! Whether applying an object again would change nothing, derived from the fields its manager owns.
//!
//! Pure, and without a schema: managedFields show which lists have keys. In doubt the
//! result is no, which costs one request that the server itself makes a no-op.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::managed_fields::{FieldSet, FieldStep, ItemKey, applied_entry, owned_by_others, owned_fields};

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
