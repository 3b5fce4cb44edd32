//! Whether another writer changed an object between two states that a write of ours lies between.
//!
//! Pure. In doubt the result is yes: a needless run is cheap, a missed change is not.

use serde_json::{Map, Value};

use super::fields::{FieldSet, FieldStep};
use super::{entries, entry_text, union};

/// The part of an object that one write can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    /// Everything but the status: by an apply or update of the object itself.
    Main,
    /// The status, through its subresource.
    Status,
    /// Nothing but `metadata.finalizers`.
    Finalizers,
}

/// Fields that change with every write.
const BOOKKEEPING: [&str; 4] = ["managedFields", "resourceVersion", "generation", "selfLink"];

/// Fields that no manager owns and that our writes do not change.
const UNMANAGED: [&str; 4] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Whether anything differs between `old` and `new` that `manager` did not write, if one write
/// of `manager` made `new`. The part that this write went to is inferred from the difference, because a write
/// has only one part; if it is known, [`is_foreign_change_excluding`] is exact.
#[must_use]
pub fn is_foreign_change(old: &Value, new: &Value, manager: &str) -> bool {
    let status = old.get("status") != new.get("status");
    let finalizers = old["metadata"].get("finalizers") != new["metadata"].get("finalizers");
    let part = match (status, finalizers, rest_differs(old, new)) {
        (true, false, false) => ObjectPart::Status,
        (false, true, false) => ObjectPart::Finalizers,
        (false, _, true) | (false, false, false) => ObjectPart::Main,
        (true, ..) => return true,
    };
    is_foreign_change_excluding(old, new, manager, part)
}

/// Whether anything differs between `old` and `new` that `manager` did not write, if it wrote
/// `part` in between.
#[must_use]
pub fn is_foreign_change_excluding(old: &Value, new: &Value, manager: &str, part: ObjectPart) -> bool {
    let (Some(old_owners), Some(new_owners)) = (Owners::from_object(old, manager), Owners::from_object(new, manager))
    else {
        return true;
    };
    let owners = OwnerChange {
        old: old_owners.as_sets(),
        new: new_owners.as_sets(),
    };
    let changed = member_names(old, new).any(|name| match name {
        "apiVersion" | "kind" => false,
        "metadata" => {
            let inner = owners.child(&FieldStep::field(name));
            metadata_differs(&old[name], &new[name], &inner, part)
        }
        _ if (name == "status") != (part == ObjectPart::Status) || part == ObjectPart::Finalizers => {
            old.get(name) != new.get(name)
        }
        _ => {
            let inner = owners.child(&FieldStep::field(name));
            is_foreign(old.get(name), new.get(name), &inner)
        }
    });
    changed || has_new_owner(&owners)
}

/// Whether another manager now owns a field that we gave up. The value is equal, but would have been removed.
fn has_new_owner(owners: &OwnerChange<'_>) -> bool {
    let OwnerChange { old, new } = owners;
    let Some(given_up) = old.own.filter(|mine| !mine.is_leaf()) else {
        let ours_alone = old.own.is_some() && old.foreign.is_none();
        return ours_alone && new.own.is_none() && new.foreign.is_some();
    };
    given_up.steps().any(|(step, _)| has_new_owner(&owners.child(step)))
}

fn rest_differs(old: &Value, new: &Value) -> bool {
    let outside = |name: &&str| !matches!(*name, "metadata" | "status");
    let inside = |name: &&str| *name != "finalizers" && !BOOKKEEPING.contains(name);
    let (old_meta, new_meta) = (&old["metadata"], &new["metadata"]);
    member_names(old, new)
        .filter(outside)
        .any(|name| old.get(name) != new.get(name))
        || member_names(old_meta, new_meta)
            .filter(inside)
            .any(|name| old_meta.get(name) != new_meta.get(name))
}

fn metadata_differs(old: &Value, new: &Value, owners: &OwnerChange<'_>, part: ObjectPart) -> bool {
    member_names(old, new).any(|name| {
        let (was, is) = (old.get(name), new.get(name));
        let ours = match part {
            ObjectPart::Main => true,
            ObjectPart::Status => false,
            ObjectPart::Finalizers => name == "finalizers",
        };
        if BOOKKEEPING.contains(&name) {
            false
        } else if UNMANAGED.contains(&name) || !ours {
            was != is
        } else {
            is_foreign(was, is, &owners.child(&FieldStep::field(name)))
        }
    })
}

/// Whether another writer made the difference between `old` and `new`, both at one place.
fn is_foreign(old: Option<&Value>, new: Option<&Value>, owners: &OwnerChange<'_>) -> bool {
    if old == new {
        return false;
    }
    match (old, new) {
        // Others also owned the removed field, or we did not: then we did not remove it.
        (_, None) => owners.old.foreign.is_some() || owners.old.own.is_none(),
        // An empty parent after a removal by another writer; the server removes one that we emptied.
        (_, Some(new)) if is_empty(new) && owners.new.own.is_none() => true,
        (_, Some(Value::Object(_))) if !owners.is_owned_whole() => {
            let (old, new) = (old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
            member_names(old, new).any(|name| {
                let inner = owners.child(&FieldStep::field(name));
                is_foreign(old.get(name), new.get(name), &inner)
            })
        }
        (_, Some(Value::Array(_))) if owners.is_owned() && !owners.is_owned_whole() => items_differ(old, new, owners),
        // A field without an owner was set by the server: a default, an allocation.
        (_, Some(_)) => owners.new.foreign.is_some() && owners.new.own.is_none(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn items_differ(old: Option<&Value>, new: Option<&Value>, owners: &OwnerChange<'_>) -> bool {
    let (old, new) = (old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
    let steps = owners.steps();
    let places = |list: &Value| -> Vec<Option<usize>> { steps.iter().map(|step| step.position(list)).collect() };
    let (was, is) = (places(old), places(new));
    // An item without a known manager cannot be compared by its keys: it must not have changed.
    unmatched_items(old, &was) != unmatched_items(new, &is)
        || is_reordered(&was, &is, |at| {
            owners.new.own.is_some_and(|mine| mine.child(steps[at]).is_some())
        })
        || steps
            .iter()
            .any(|step| is_foreign(step.resolve(old), step.resolve(new), &owners.child(step)))
}

/// The items outside `places`.
fn unmatched_items<'a>(list: &'a Value, places: &[Option<usize>]) -> Vec<&'a Value> {
    let mut named: Vec<usize> = places.iter().flatten().copied().collect();
    named.sort_unstable();
    let items = list.as_array().into_iter().flatten().enumerate();
    items
        .filter(|(at, _)| named.binary_search(at).is_err())
        .map(|(_, item)| item)
        .collect()
}

/// Whether remaining items changed their order, except for a new order of our own items only.
fn is_reordered(was: &[Option<usize>], is: &[Option<usize>], ours: impl Fn(usize) -> bool) -> bool {
    let mut stayed: Vec<(usize, usize, usize)> = was
        .iter()
        .zip(is)
        .enumerate()
        .filter_map(|(at, (was, is))| Some(((*was)?, (*is)?, at)))
        .collect();
    stayed.sort_unstable();
    !stayed.is_sorted_by_key(|(_, is, _)| *is) && !stayed.iter().all(|(.., at)| ours(*at))
}

fn member_names<'a>(old: &'a Value, new: &'a Value) -> impl Iterator<Item = &'a str> {
    let of = |value: &'a Value| value.as_object().into_iter().flat_map(|it| it.keys());
    let added = of(new).filter(move |name| old.get(name.as_str()).is_none());
    of(old).chain(added).map(String::as_str)
}

/// Our fields and those of other writers in one state of an object.
struct Owners {
    own: FieldSet,
    foreign: FieldSet,
}

impl Owners {
    fn from_object(object: &Value, manager: &str) -> Option<Self> {
        let (mine, theirs): (Vec<_>, Vec<_>) = entries(object)
            .iter()
            .partition(|entry| entry_text(entry, "manager") == manager);
        Some(Self {
            own: union(mine.into_iter())?,
            foreign: union(theirs.into_iter())?,
        })
    }

    fn as_sets(&self) -> OwnerSets<'_> {
        OwnerSets {
            own: Some(&self.own),
            foreign: Some(&self.foreign),
        }
    }
}

/// The owners at one place.
#[derive(Clone, Copy)]
struct OwnerSets<'a> {
    own: Option<&'a FieldSet>,
    foreign: Option<&'a FieldSet>,
}

/// The former and the current owners at one place.
struct OwnerChange<'a> {
    old: OwnerSets<'a>,
    new: OwnerSets<'a>,
}

impl<'a> OwnerChange<'a> {
    fn all(&self) -> impl Iterator<Item = &'a FieldSet> {
        let Self { old, new } = self;
        [old.own, old.foreign, new.own, new.foreign].into_iter().flatten()
    }

    /// Whether it or a part of it has an owner.
    fn is_owned(&self) -> bool {
        self.all().next().is_some()
    }

    /// Whether its owners own it whole.
    fn is_owned_whole(&self) -> bool {
        self.is_owned() && self.all().all(FieldSet::is_leaf)
    }

    fn child(&self, step: &FieldStep) -> Self {
        let of = |shares: OwnerSets<'a>| OwnerSets {
            own: shares.own.and_then(|fields| fields.child(step)),
            foreign: shares.foreign.and_then(|fields| fields.child(step)),
        };
        Self {
            old: of(self.old),
            new: of(self.new),
        }
    }

    fn steps(&self) -> Vec<&'a FieldStep> {
        let mut steps: Vec<&FieldStep> = self
            .all()
            .flat_map(|fields| fields.steps().map(|(step, _)| step))
            .collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(data: &Value, mine: &Value, theirs: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": "u", "managedFields": [
                {"manager": "ours", "operation": "Apply", "fieldsV1": {"f:data": mine}},
                {"manager": "them", "operation": "Update", "fieldsV1": {"f:data": theirs}},
            ]},
            "data": data,
        })
    }

    #[test]
    fn our_own_change_is_not_foreign() {
        let theirs = json!({"f:x": {}});
        let old = config_map(&json!({"a": "1", "x": "1"}), &json!({"f:a": {}}), &theirs);
        let new = config_map(&json!({"b": "2", "x": "1"}), &json!({"f:b": {}}), &theirs);
        assert!(!is_foreign_change(&old, &new, "ours"));
    }

    #[test]
    fn foreign_change_next_to_own_is_foreign() {
        let (mine, theirs) = (json!({"f:a": {}}), json!({"f:x": {}}));
        let old = config_map(&json!({"a": "1", "x": "1"}), &mine, &theirs);
        let changed = config_map(&json!({"a": "2", "x": "2"}), &mine, &theirs);
        assert!(is_foreign_change(&old, &changed, "ours"));
        let removed = config_map(&json!({"a": "2"}), &mine, &json!({}));
        assert!(is_foreign_change(&old, &removed, "ours"));
    }

    #[test]
    fn lost_field_is_foreign() {
        let old = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        let mut new = config_map(&json!({"a": "9"}), &json!({"f:b": {}}), &json!({"f:a": {}}));
        assert!(is_foreign_change(&old, &new, "ours"));
        new["status"] = json!({"seen": true});
        assert!(is_foreign_change_excluding(&old, &new, "ours", ObjectPart::Status));
    }

    #[test]
    fn a_removal_behind_a_status_write_is_foreign() {
        let old = config_map(&json!({"a": "1", "b": "1"}), &json!({"f:a": {}, "f:b": {}}), &json!({}));
        let new = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        assert!(!is_foreign_change_excluding(&old, &new, "ours", ObjectPart::Main));
        assert!(is_foreign_change_excluding(&old, &new, "ours", ObjectPart::Status));
        assert!(is_foreign_change_excluding(&old, &new, "ours", ObjectPart::Finalizers));
    }

    #[test]
    fn deletion_is_always_foreign() {
        let old = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        let mut new = config_map(&json!({"a": "2"}), &json!({"f:a": {}}), &json!({}));
        new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(is_foreign_change(&old, &new, "ours"));
    }

    #[test]
    fn what_the_server_fills_in_is_not_foreign() {
        let mine = json!({"f:list": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}});
        let old = config_map(&json!({}), &json!({}), &json!({}));
        let filled = json!({"list": [{"name": "c", "policy": "Always"}], "default": ["x"]});
        let new = config_map(&filled, &mine, &json!({}));
        assert!(!is_foreign_change(&old, &new, "ours"));
        // And its removal also removes the filled-in fields.
        let gone = config_map(&json!({"default": ["x"]}), &json!({}), &json!({}));
        assert!(!is_foreign_change(&new, &gone, "ours"));
    }

    #[test]
    fn foreign_item_in_a_shared_list_is_foreign() {
        let mine = json!({"f:list": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}});
        let theirs = json!({"f:list": {"k:{\"name\":\"d\"}": {".": {}, "f:name": {}}}});
        let old = config_map(&json!({"list": [{"name": "c"}]}), &mine, &json!({}));
        let both = json!({"list": [{"name": "c"}, {"name": "d"}]});
        let new = config_map(&both, &mine, &theirs);
        assert!(is_foreign_change(&old, &new, "ours"));
        let swapped = json!({"list": [{"name": "d"}, {"name": "c"}]});
        assert!(is_foreign_change(&new, &config_map(&swapped, &mine, &theirs), "ours"));
    }

    #[test]
    fn released_field_with_a_new_owner_is_foreign() {
        let data = json!({"a": "1", "b": "1"});
        let mine = json!({"f:a": {}, "f:b": {}});
        let old = config_map(&data, &mine, &json!({}));
        let new = config_map(&data, &json!({"f:b": {}}), &json!({"f:a": {}}));
        assert!(is_foreign_change(&old, &new, "ours"));
        assert!(is_foreign_change_excluding(&old, &new, "ours", ObjectPart::Main));
        // The former co-owner has not written since.
        let shared = config_map(&data, &mine, &json!({"f:a": {}}));
        assert!(!is_foreign_change(&shared, &new, "ours"));
    }

    #[test]
    fn bookkeeping_is_not_a_change() {
        let old = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        let mut new = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({"f:a": {}}));
        new["metadata"]["resourceVersion"] = json!("7");
        new["metadata"]["generation"] = json!(2);
        assert!(!is_foreign_change(&old, &new, "ours"));
    }
}
