//! What Go's JSON encoder shows of values that are not set.

use serde_json::{Map, Value, json};

use super::gotype::{Field, GoType, Named, Shape, named};

/// An unset `field` of the struct `type_name`.
pub(super) fn zero_field(type_name: &str, field: &str) -> Value {
    match &named(type_name).shape {
        Shape::Struct(fields) => fields
            .iter()
            .find(|f| f.name == field)
            .map_or(Value::Null, |f| zero(&f.kind)),
        _ => Value::Null,
    }
}

/// Adds the fields that are not there and that a Go encoder shows all the same.
pub(super) fn show_unset(fields: &'static [Field], out: &mut Map<String, Value>) {
    for field in fields.iter().filter(|field| !field.name.is_empty()) {
        if let Some(value) = unset(field)
            && !out.contains_key(&field.name)
        {
            out.insert(field.name.clone(), value.clone());
        }
    }
    for (_, inner) in inlined(fields) {
        show_unset(inner, out);
    }
}

fn unset(field: &'static Field) -> Option<&'static Value> {
    let shown = field.unset.get_or_init(|| {
        let value = zero(&field.kind);
        (!is_omitted(field, &value)).then_some(value)
    });
    shown.as_ref()
}

/// Whether a Go encoder leaves the field out when this is its value.
pub(super) fn is_omitted(field: &Field, value: &Value) -> bool {
    (field.omit_empty && is_empty(&field.kind, value)) || (field.omit_zero && value.is_null())
}

/// The structs whose fields stand among those of the struct they are in.
pub(super) fn inlined(fields: &'static [Field]) -> impl Iterator<Item = (&'static Named, &'static [Field])> {
    fields
        .iter()
        .filter(|field| field.name.is_empty())
        .filter_map(|field| match &field.kind {
            GoType::Named(key) => match &named(key).shape {
                Shape::Struct(inner) => Some((named(key), inner.as_slice())),
                _ => None,
            },
            _ => None,
        })
}

/// What an unset value of a type looks like in JSON.
pub(super) fn zero(kind: &GoType) -> Value {
    match kind {
        GoType::Bool => json!(false),
        GoType::String => json!(""),
        GoType::Int32 | GoType::Int64 | GoType::Float64 => json!(0),
        GoType::Bytes | GoType::Pointer(_) | GoType::Slice(_) | GoType::Map(_) => Value::Null,
        GoType::Named(key) => match &named(key).shape {
            Shape::Alias(of) => zero(of),
            Shape::Custom => zero_custom(key),
            Shape::Struct(fields) => {
                let mut out = Map::new();
                show_unset(fields, &mut out);
                Value::Object(out)
            }
        },
    }
}

fn zero_custom(key: &str) -> Value {
    match key.rsplit('.').next() {
        Some("Quantity") => json!("0"),
        Some("IntOrString") => json!(0),
        _ => Value::Null,
    }
}

/// Whether `omitempty` leaves a value out. It never does for structs.
fn is_empty(kind: &GoType, value: &Value) -> bool {
    match kind {
        GoType::Pointer(_) => value.is_null(),
        GoType::Named(key) => match &named(key).shape {
            Shape::Alias(of) => is_empty(of, value),
            Shape::Struct(_) | Shape::Custom => false,
        },
        _ => match value {
            Value::Null => true,
            Value::Bool(set) => !set,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
        },
    }
}
