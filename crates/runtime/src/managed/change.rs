//! Whether another writer changed an object between two states that a write of ours lies between.
//!
//! Pure. In doubt the result is yes: a needless run is cheap, a missed change is not.

use serde_json::{Map, Value};

use super::fields::{FieldSet, FieldStep};
use super::{entries, text, union};

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
/// has only one part; if it is known, [`foreign_change_beside`] is exact.
#[must_use]
pub fn foreign_change(old: &Value, new: &Value, manager: &str) -> bool {
    let status = old.get("status") != new.get("status");
    let finalizers = old["metadata"].get("finalizers") != new["metadata"].get("finalizers");
    let part = match (status, finalizers, rest_differs(old, new)) {
        (true, false, false) => ObjectPart::Status,
        (false, true, false) => ObjectPart::Finalizers,
        (false, _, true) | (false, false, false) => ObjectPart::Main,
        (true, ..) => return true,
    };
    foreign_change_beside(old, new, manager, part)
}

/// Whether anything differs between `old` and `new` that `manager` did not write, if it wrote
/// `part` in between.
#[must_use]
pub fn foreign_change_beside(old: &Value, new: &Value, manager: &str, part: ObjectPart) -> bool {
    let (Some(old_owners), Some(new_owners)) = (Owners::of(old, manager), Owners::of(new, manager))
    else {
        return true;
    };
    let owners = Pair {
        old: old_owners.borrow(),
        new: new_owners.borrow(),
    };
    let changed = names(old, new).any(|name| match name {
        "apiVersion" | "kind" => false,
        "metadata" => {
            let inner = owners.child(&FieldStep::field(name));
            metadata(&old[name], &new[name], &inner, part)
        }
        _ if (name == "status") != (part == ObjectPart::Status)
            || part == ObjectPart::Finalizers =>
        {
            old.get(name) != new.get(name)
        }
        _ => {
            let inner = owners.child(&FieldStep::field(name));
            foreign(old.get(name), new.get(name), &inner)
        }
    });
    changed || held(&owners)
}

/// Whether another manager now owns a field that we gave up. The value is equal, but would have been removed.
fn held(owners: &Pair<'_>) -> bool {
    let Pair { old, new } = owners;
    let Some(given_up) = old.mine.filter(|mine| !mine.is_leaf()) else {
        let ours_alone = old.mine.is_some() && old.theirs.is_none();
        return ours_alone && new.mine.is_none() && new.theirs.is_some();
    };
    given_up.steps().any(|(step, _)| held(&owners.child(step)))
}

fn rest_differs(old: &Value, new: &Value) -> bool {
    let outside = |name: &&str| !matches!(*name, "metadata" | "status");
    let inside = |name: &&str| *name != "finalizers" && !BOOKKEEPING.contains(name);
    let (old_meta, new_meta) = (&old["metadata"], &new["metadata"]);
    names(old, new)
        .filter(outside)
        .any(|name| old.get(name) != new.get(name))
        || names(old_meta, new_meta)
            .filter(inside)
            .any(|name| old_meta.get(name) != new_meta.get(name))
}

fn metadata(old: &Value, new: &Value, owners: &Pair<'_>, part: ObjectPart) -> bool {
    names(old, new).any(|name| {
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
            foreign(was, is, &owners.child(&FieldStep::field(name)))
        }
    })
}

/// Whether another writer made the difference between `old` and `new`, both at one place.
fn foreign(old: Option<&Value>, new: Option<&Value>, owners: &Pair<'_>) -> bool {
    if old == new {
        return false;
    }
    match (old, new) {
        // Others also owned the removed field, or we did not: then we did not remove it.
        (_, None) => owners.old.theirs.is_some() || owners.old.mine.is_none(),
        // An empty parent after a removal by another writer; the server removes one that we emptied.
        (_, Some(new)) if is_empty(new) && owners.new.mine.is_none() => true,
        (_, Some(Value::Object(_))) if !owners.whole() => {
            let (old, new) = (old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
            names(old, new).any(|name| {
                let inner = owners.child(&FieldStep::field(name));
                foreign(old.get(name), new.get(name), &inner)
            })
        }
        (_, Some(Value::Array(_))) if owners.any() && !owners.whole() => items(old, new, owners),
        // A field without an owner was set by the server: a default, an allocation.
        (_, Some(_)) => owners.new.theirs.is_some() && owners.new.mine.is_none(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn items(old: Option<&Value>, new: Option<&Value>, owners: &Pair<'_>) -> bool {
    let (old, new) = (old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
    let steps = owners.steps();
    let places = |list: &Value| -> Vec<Option<usize>> {
        steps.iter().map(|step| step.place(list)).collect()
    };
    let (was, is) = (places(old), places(new));
    // An item without a known manager cannot be compared by its keys: it must not have changed.
    unnamed(old, &was) != unnamed(new, &is)
        || reordered(&was, &is, |at| {
            owners
                .new
                .mine
                .is_some_and(|mine| mine.child(steps[at]).is_some())
        })
        || steps
            .iter()
            .any(|step| foreign(step.of(old), step.of(new), &owners.child(step)))
}

/// The items outside `places`.
fn unnamed<'a>(list: &'a Value, places: &[Option<usize>]) -> Vec<&'a Value> {
    let mut named: Vec<usize> = places.iter().flatten().copied().collect();
    named.sort_unstable();
    let items = list.as_array().into_iter().flatten().enumerate();
    items
        .filter(|(at, _)| named.binary_search(at).is_err())
        .map(|(_, item)| item)
        .collect()
}

/// Whether remaining items changed their order, except for a new order of our own items only.
fn reordered(was: &[Option<usize>], is: &[Option<usize>], ours: impl Fn(usize) -> bool) -> bool {
    let mut stayed: Vec<(usize, usize, usize)> = was
        .iter()
        .zip(is)
        .enumerate()
        .filter_map(|(at, (was, is))| Some(((*was)?, (*is)?, at)))
        .collect();
    stayed.sort_unstable();
    !stayed.is_sorted_by_key(|(_, is, _)| *is) && !stayed.iter().all(|(.., at)| ours(*at))
}

fn names<'a>(old: &'a Value, new: &'a Value) -> impl Iterator<Item = &'a str> {
    let of = |value: &'a Value| value.as_object().into_iter().flat_map(|it| it.keys());
    let added = of(new).filter(move |name| old.get(name.as_str()).is_none());
    of(old).chain(added).map(String::as_str)
}

/// Our fields and those of other writers in one state of an object.
struct Owners {
    mine: FieldSet,
    theirs: FieldSet,
}

impl Owners {
    fn of(object: &Value, manager: &str) -> Option<Self> {
        let (mine, theirs): (Vec<_>, Vec<_>) = entries(object)
            .iter()
            .partition(|entry| text(entry, "manager") == manager);
        Some(Self {
            mine: union(mine.into_iter())?,
            theirs: union(theirs.into_iter())?,
        })
    }

    fn borrow(&self) -> Shares<'_> {
        Shares {
            mine: Some(&self.mine),
            theirs: Some(&self.theirs),
        }
    }
}

/// The owners at one place.
#[derive(Clone, Copy)]
struct Shares<'a> {
    mine: Option<&'a FieldSet>,
    theirs: Option<&'a FieldSet>,
}

/// The former and the current owners at one place.
struct Pair<'a> {
    old: Shares<'a>,
    new: Shares<'a>,
}

impl<'a> Pair<'a> {
    fn all(&self) -> impl Iterator<Item = &'a FieldSet> {
        let Self { old, new } = self;
        [old.mine, old.theirs, new.mine, new.theirs]
            .into_iter()
            .flatten()
    }

    /// Whether it or a part of it has an owner.
    fn any(&self) -> bool {
        self.all().next().is_some()
    }

    /// Whether its owners own it whole.
    fn whole(&self) -> bool {
        self.any() && self.all().all(FieldSet::is_leaf)
    }

    fn child(&self, step: &FieldStep) -> Self {
        let of = |shares: Shares<'a>| Shares {
            mine: shares.mine.and_then(|fields| fields.child(step)),
            theirs: shares.theirs.and_then(|fields| fields.child(step)),
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
        assert!(!foreign_change(&old, &new, "ours"));
    }

    #[test]
    fn a_change_of_theirs_beside_ours_is_foreign() {
        let (mine, theirs) = (json!({"f:a": {}}), json!({"f:x": {}}));
        let old = config_map(&json!({"a": "1", "x": "1"}), &mine, &theirs);
        let changed = config_map(&json!({"a": "2", "x": "2"}), &mine, &theirs);
        assert!(foreign_change(&old, &changed, "ours"));
        let removed = config_map(&json!({"a": "2"}), &mine, &json!({}));
        assert!(foreign_change(&old, &removed, "ours"));
    }

    #[test]
    fn a_field_of_ours_that_they_took_is_foreign() {
        let old = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        let mut new = config_map(&json!({"a": "9"}), &json!({"f:b": {}}), &json!({"f:a": {}}));
        assert!(foreign_change(&old, &new, "ours"));
        new["status"] = json!({"seen": true});
        assert!(foreign_change_beside(
            &old,
            &new,
            "ours",
            ObjectPart::Status
        ));
    }

    #[test]
    fn a_removal_behind_a_status_write_is_foreign() {
        let old = config_map(
            &json!({"a": "1", "b": "1"}),
            &json!({"f:a": {}, "f:b": {}}),
            &json!({}),
        );
        let new = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        assert!(!foreign_change_beside(&old, &new, "ours", ObjectPart::Main));
        assert!(foreign_change_beside(
            &old,
            &new,
            "ours",
            ObjectPart::Status
        ));
        assert!(foreign_change_beside(
            &old,
            &new,
            "ours",
            ObjectPart::Finalizers
        ));
    }

    #[test]
    fn deletion_is_always_foreign() {
        let old = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        let mut new = config_map(&json!({"a": "2"}), &json!({"f:a": {}}), &json!({}));
        new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(foreign_change(&old, &new, "ours"));
    }

    #[test]
    fn what_the_server_fills_in_is_not_foreign() {
        let mine = json!({"f:list": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}});
        let old = config_map(&json!({}), &json!({}), &json!({}));
        let filled = json!({"list": [{"name": "c", "policy": "Always"}], "default": ["x"]});
        let new = config_map(&filled, &mine, &json!({}));
        assert!(!foreign_change(&old, &new, "ours"));
        // And its removal also removes the filled-in fields.
        let gone = config_map(&json!({"default": ["x"]}), &json!({}), &json!({}));
        assert!(!foreign_change(&new, &gone, "ours"));
    }

    #[test]
    fn an_item_of_theirs_in_a_shared_list_is_foreign() {
        let mine = json!({"f:list": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}});
        let theirs = json!({"f:list": {"k:{\"name\":\"d\"}": {".": {}, "f:name": {}}}});
        let old = config_map(&json!({"list": [{"name": "c"}]}), &mine, &json!({}));
        let both = json!({"list": [{"name": "c"}, {"name": "d"}]});
        let new = config_map(&both, &mine, &theirs);
        assert!(foreign_change(&old, &new, "ours"));
        let swapped = json!({"list": [{"name": "d"}, {"name": "c"}]});
        assert!(foreign_change(
            &new,
            &config_map(&swapped, &mine, &theirs),
            "ours"
        ));
    }

    #[test]
    fn what_we_gave_up_and_somebody_came_to_hold_is_foreign() {
        let data = json!({"a": "1", "b": "1"});
        let mine = json!({"f:a": {}, "f:b": {}});
        let old = config_map(&data, &mine, &json!({}));
        let new = config_map(&data, &json!({"f:b": {}}), &json!({"f:a": {}}));
        assert!(foreign_change(&old, &new, "ours"));
        assert!(foreign_change_beside(&old, &new, "ours", ObjectPart::Main));
        // The former co-owner has not written since.
        let shared = config_map(&data, &mine, &json!({"f:a": {}}));
        assert!(!foreign_change(&shared, &new, "ours"));
    }

    #[test]
    fn bookkeeping_alone_is_no_change() {
        let old = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({}));
        let mut new = config_map(&json!({"a": "1"}), &json!({"f:a": {}}), &json!({"f:a": {}}));
        new["metadata"]["resourceVersion"] = json!("7");
        new["metadata"]["generation"] = json!(2);
        assert!(!foreign_change(&old, &new, "ours"));
    }
}
