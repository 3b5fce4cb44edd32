//! Laws that hold for all objects. More cases with `PROPTEST_CASES`.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{V1, field_manager, openapi, widget, writer};
use crate::managed::{self, entries};
use crate::openapi::{Components, read};
use crate::path::PathElement;
use crate::set::Set;
use crate::{fields_v1, typed};

/// Few names and values, so that objects meet.
fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "<&>\n"]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, 1e18, 1e300]).prop_map(Value::from),
        text().prop_map(Value::from),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(text(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Items that can be told apart: maps by their port, scalars by themselves.
fn distinct(mut items: Vec<Value>) -> Value {
    let mut seen = Vec::new();
    items.retain_mut(|item| {
        if item.is_object() {
            item["port"] = json!(seen.len());
        }
        let new = !seen.contains(item);
        seen.push(item.clone());
        new
    });
    Value::from(items)
}

/// A value that fits a schema.
fn fitting(schema: &Value) -> BoxedStrategy<Value> {
    match schema["type"].as_str() {
        Some("string") => text().prop_map(Value::from).boxed(),
        Some("integer") => (0_i64..3).prop_map(Value::from).boxed(),
        Some("array") => vec(fitting(&schema["items"]), 0..4)
            .prop_map(if schema["x-kubernetes-list-type"] == "atomic" {
                Value::from
            } else {
                distinct
            })
            .boxed(),
        Some("object") => match (schema.get("properties"), schema.get("additionalProperties")) {
            (Some(Value::Object(properties)), _) => {
                let mut object = Just(Map::new()).boxed();
                for (name, property) in properties {
                    let name = name.clone();
                    object = (object, prop::option::of(fitting(property)))
                        .prop_map(move |(mut object, value)| {
                            if let Some(value) = value {
                                object.insert(name.clone(), value);
                            }
                            object
                        })
                        .boxed();
                }
                object.prop_map(Value::Object).boxed()
            }
            (_, Some(values)) => btree_map(text(), fitting(values), 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
                .boxed(),
            _ => btree_map(text(), any_json(), 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
                .boxed(),
        },
        _ => prop_oneof![text().prop_map(Value::from), (0_i64..3).prop_map(Value::from)].boxed(),
    }
}

pub(crate) fn spec() -> BoxedStrategy<Value> {
    fitting(&openapi()["properties"]["spec"])
}

/// Nobody owns an empty list whose items would have owners, so nobody removes it either.
fn without_empty_lists(mut spec: Value) -> Value {
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
    }
    spec
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        text().prop_map(PathElement::Field),
        vec((text(), scalar()), 1..3).prop_map(|mut key| {
            key.sort_by(|a, b| a.0.cmp(&b.0));
            key.dedup_by(|a, b| a.0 == b.0);
            PathElement::key(key)
        }),
        scalar().prop_map(PathElement::Value),
        (0_i64..3).prop_map(PathElement::Index),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    vec(vec(element(), 1..4), 0..8).prop_map(|paths| Set::of(paths.iter().map(Vec::as_slice)))
}

proptest! {
    #[test]
    fn fields_v1_survive_a_round_trip(set in set()) {
        prop_assert_eq!(fields_v1::decode(&fields_v1::encode(&set)), Ok(set));
    }

    #[test]
    fn sets_obey_algebra(a in set(), b in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), a.difference(&a.difference(&b)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.recursive_difference(&b).difference(&a.difference(&b)), Set::default());
    }

    #[test]
    fn comparing_backwards_swaps_added_and_removed(a in spec(), b in spec()) {
        let (schema, root) = read(&openapi(), &Components::new());
        let there = typed::compare(&schema, root, &widget(&a), &widget(&b)).expect("fits");
        let back = typed::compare(&schema, root, &widget(&b), &widget(&a)).expect("fits");
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.modified, &back.modified);
        let same = typed::compare(&schema, root, &widget(&a), &widget(&a)).expect("fits");
        prop_assert_eq!(same, typed::Comparison::default());
    }

    #[test]
    fn a_merge_states_all_the_right_side_states(a in spec(), b in spec()) {
        let (schema, root) = read(&openapi(), &Components::new());
        let merged = typed::merge(&schema, root, &widget(&a), &widget(&b)).expect("fits");
        let stated = schema.with_named_fields(&typed::field_set(&schema, root, &merged), Some(root));
        let missing = typed::field_set(&schema, root, &widget(&b)).difference(&stated);
        prop_assert_eq!(missing, Set::default());
        prop_assert_eq!(typed::merge(&schema, root, &merged, &widget(&b)).expect("fits"), merged);
    }

    #[test]
    fn applying_twice_changes_nothing(before in spec(), applied in spec()) {
        let manager = field_manager(&openapi());
        let live = manager.update(None, widget(&before), &writer("u"));
        let once = manager.apply(Some(&live), &widget(&applied), &writer("a"), true).expect("forced");
        let twice = manager.apply(Some(&once), &widget(&applied), &writer("a"), false);
        prop_assert_eq!(twice.expect("own fields"), once);
    }

    #[test]
    fn nothing_is_left_of_what_only_one_applied(first in spec(), second in spec()) {
        let (first, second) = (without_empty_lists(first), without_empty_lists(second));
        let manager = field_manager(&openapi());
        let bare = json!({"apiVersion": V1, "kind": "Widget", "metadata": {"name": "w"}});
        let live = manager.apply(None, &widget(&first), &writer("a"), false).expect("new");
        let live = manager.apply(Some(&live), &widget(&second), &writer("a"), false).expect("own");
        let mut left = manager.apply(Some(&live), &bare, &writer("a"), false).expect("own");
        managed::clear(&mut left);
        prop_assert_eq!(left, bare);
    }

    #[test]
    fn what_another_also_owns_stays(applied in spec()) {
        let manager = field_manager(&openapi());
        let live = manager.apply(None, &widget(&applied), &writer("a"), false).expect("new");
        let live = manager.apply(Some(&live), &widget(&applied), &writer("b"), false).expect("equal");
        let left = manager.apply(Some(&live), &widget(&json!({})), &writer("a"), false).expect("own");
        prop_assert_eq!(&left["spec"], &live["spec"]);
    }

    #[test]
    fn what_one_changes_is_lost_to_the_others(first in spec(), second in spec()) {
        let manager = field_manager(&openapi());
        let live = manager.apply(None, &widget(&first), &writer("a"), false).expect("new");
        let forced = manager.apply(Some(&live), &widget(&second), &writer("b"), true).expect("forced");
        let again = manager.apply(Some(&forced), &widget(&second), &writer("c"), false);
        prop_assert!(again.is_ok(), "all owners agree with the object: {:?}", again);
    }

    #[test]
    fn no_input_stops_field_management(schema in any_json(), live in any_json(), new in any_json()) {
        let odd = json!({"type": "object", "properties": {"spec": schema}});
        for openapi in [odd, openapi(), live.clone()] {
            let manager = field_manager(&openapi);
            let mut object = widget(&new);
            object["metadata"]["managedFields"] = live.clone();
            let _ = manager.apply(Some(&widget(&live)), &object, &writer("a"), false);
            let _ = manager.apply(Some(&object), &widget(&live), &writer("a"), true);
            let _ = manager.apply(Some(&live), &new, &writer("a"), false);
            let updated = manager.update(Some(&widget(&live)), object.clone(), &writer("a"));
            prop_assert!(entries(&updated).is_none_or(|entries| !entries.is_empty()));
            prop_assert_eq!(&updated["spec"], &object["spec"]);
            let _ = manager.update(Some(&live), new.clone(), &writer("a"));
        }
    }
}
