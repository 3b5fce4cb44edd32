//! A value without some of its fields.

use serde_json::{Map, Value};

use super::{Form, form, item_element};
use crate::schema::{ListRelationship, ListType, MapType, Schema, TypeId};
use crate::set::{Set, Subtree};

/// Removes the fields and list items of `items`. A container that loses everything, and an
/// atomic one of which a part is to go, becomes null.
#[must_use]
pub fn remove(schema: &Schema, kind: TypeId, value: Value, items: &Set) -> Value {
    match (form(schema.atom(kind), &value), value) {
        (Some(Form::Scalar(_)), scalar) => scalar,
        (Some(Form::Map(map)), Value::Object(fields)) if !map.atomic => {
            let fields = remove_fields(schema, map, fields, items);
            if fields.is_empty() {
                Value::Null
            } else {
                Value::Object(fields)
            }
        }
        (Some(Form::List(list)), Value::Array(values)) if list.relationship != ListRelationship::Atomic => {
            let values = remove_items(schema, list, values, items);
            if values.is_empty() {
                Value::Null
            } else {
                Value::Array(values)
            }
        }
        _ => Value::Null,
    }
}

fn remove_fields(schema: &Schema, map: &MapType, fields: Map<String, Value>, items: &Set) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, value) in fields {
        let kind = map.field(&name).unwrap_or(TypeId::DEDUCED);
        if let Some(value) = without(schema, kind, value, items.get_field(&name)) {
            kept.insert(name, value);
        }
    }
    kept
}

fn remove_items(schema: &Schema, list: &ListType, values: Vec<Value>, items: &Set) -> Vec<Value> {
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        let element = item_element(schema, list, &value).ok();
        let listed = element.and_then(|element| items.get(&element));
        kept.extend(without(schema, list.element, value, listed));
    }
    kept
}

fn without(schema: &Schema, kind: TypeId, value: Value, listed: Option<&Subtree>) -> Option<Value> {
    match listed {
        None => Some(value),
        Some(listed) if listed.member => None,
        Some(listed) => Some(remove(schema, kind, value, &listed.children)),
    }
}
