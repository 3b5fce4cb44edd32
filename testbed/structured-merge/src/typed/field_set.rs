//! Which fields does a value state?

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Form, form, item_element};
use crate::path::PathElement;
use crate::schema::{ListRelationship, ListType, MapType, Schema, TypeId};
use crate::set::{Set, Subtree};

/// Every leaf and list item of a value that fits its type.
#[must_use]
pub fn field_set(schema: &Schema, kind: TypeId, value: &Value) -> Set {
    subtree(schema, kind, value).children
}

fn subtree(schema: &Schema, kind: TypeId, value: &Value) -> Subtree {
    match (form(schema.atom(kind), value), value) {
        (Some(Form::Scalar(_)), _) => Subtree::leaf(),
        (Some(Form::Map(map)), _) if map.atomic => Subtree::leaf(),
        (Some(Form::List(list)), _) if list.relationship == ListRelationship::Atomic => Subtree::leaf(),
        (Some(Form::Map(map)), Value::Object(fields)) => Subtree {
            member: false,
            children: fields_of(schema, map, fields),
        },
        (Some(Form::List(list)), Value::Array(items)) => Subtree {
            member: false,
            children: items_of(schema, list, items),
        },
        _ => Subtree::default(),
    }
}

fn fields_of(schema: &Schema, map: &MapType, fields: &Map<String, Value>) -> Set {
    let mut set = Set::default();
    for (name, value) in fields {
        let Some(kind) = map.field(name) else {
            continue;
        };
        let mut below = subtree(schema, kind, value);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        below.member |= empty || !map.fields.contains_key(name);
        if !below.is_empty() {
            set.put(PathElement::field(name.as_str()), below);
        }
    }
    set
}

/// Items that share a key are one leaf: nobody can own a part of what cannot be told apart.
fn items_of(schema: &Schema, list: &ListType, items: &[Value]) -> Set {
    let (mut seen, mut duplicates) = (BTreeSet::new(), BTreeSet::new());
    let elements: Vec<_> = items.iter().map(|item| item_element(schema, list, item)).collect();
    for element in elements.iter().flatten() {
        if !seen.insert(element) {
            duplicates.insert(element);
        }
    }
    let mut set = Set::default();
    for (element, item) in elements.iter().zip(items) {
        let Ok(element) = element else { continue };
        let mut below = Subtree::leaf();
        if !duplicates.contains(element) {
            below.children = subtree(schema, list.element, item).children;
        }
        set.put(element.clone(), below);
    }
    set
}
