//! JSON values as rules see them, by the type their schema gives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Map, Value};

use aplomb_cel::{Key, ListKind, Val, escape, parse_duration, parse_timestamp, value_of};

use crate::crd::structural::Structural;

/// The value of `json` under `schema`.
pub(super) fn convert(json: &Value, schema: &Structural) -> Val {
    if let Some(why) = mismatch(json, schema) {
        return Val::Invalid(why.into());
    }
    match json {
        Value::Number(number) if schema.type_name == "number" => match number.as_i64() {
            Some(value) => Val::Double(double(value)),
            None => value_of(json),
        },
        Value::String(text) => convert_text(text, schema),
        Value::Array(items) => convert_list(items, schema),
        Value::Object(map) => convert_map(map, schema),
        _ => value_of(json),
    }
}

fn convert_or_take(json: &Value, schema: Option<&Structural>) -> Val {
    schema.map_or_else(|| value_of(json), |schema| convert(json, schema))
}

/// Why `json` is not a value of `schema`. Only what an update left alone can be wrong here.
fn mismatch(json: &Value, schema: &Structural) -> Option<String> {
    if json.is_null() {
        let why = "invalid data, got null for schema with nullable=false";
        return (!schema.nullable).then(|| why.to_owned());
    }
    if schema.extensions.int_or_string {
        let why = "invalid data, expected XIntOrString value to be either a string or integer";
        return (!json.is_string() && !json.is_i64()).then(|| why.to_owned());
    }
    let (fits, wanted) = match schema.type_name.as_str() {
        "object" => (json.is_object(), "a map for the provided schema with type=object"),
        "array" => (json.is_array(), "an array for the provided schema with type=array"),
        "string" => (json.is_string(), "string"),
        "number" => (json.is_number(), "float"),
        "integer" => (json.is_i64(), "int"),
        "boolean" => (json.is_boolean(), "bool"),
        _ => (true, ""),
    };
    let got = if wanted.contains(' ') {
        String::new()
    } else {
        format!(", got {}", go_type(json))
    };
    (!fits).then(|| format!("invalid data, expected {wanted}{got}"))
}

fn go_type(json: &Value) -> &'static str {
    match json {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[allow(clippy::cast_precision_loss)] // a number field holds a double whatever is written
fn double(value: i64) -> f64 {
    value as f64
}

fn convert_text(text: &str, schema: &Structural) -> Val {
    let format = match schema.type_name.as_str() {
        "string" => schema.format.as_str(),
        _ => "",
    };
    let special = match format {
        "byte" => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()
            .map(Val::Bytes),
        "duration" => parse_duration(text).map(Val::Duration),
        "date" | "date-time" => parse_timestamp(text).map(Val::Timestamp),
        _ => None,
    };
    special.unwrap_or_else(|| Val::text(text))
}

fn convert_list(items: &[Value], schema: &Structural) -> Val {
    let below = schema.items.as_deref();
    let extensions = &schema.extensions;
    let kind = match extensions.list_type.as_deref() {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(extensions.list_map_keys.clone().into()),
        _ => ListKind::Atomic,
    };
    let items = items.iter().map(|item| convert_or_take(item, below));
    Val::List(Arc::new(items.collect()), kind)
}

/// Keys of maps are data and stay; names of properties are escaped, and those that cannot be are
/// not visible.
fn convert_map(map: &Map<String, Value>, schema: &Structural) -> Val {
    let mut out = BTreeMap::new();
    for (key, value) in map {
        let property = schema.properties.get(key);
        let is_field = property.is_some() || schema.additional.is_none();
        let name = if is_field { escape(key) } else { Some(key.clone()) };
        let below = property.or_else(|| schema.additional_schema());
        if let Some(name) = name {
            out.insert(Key::String(name.into()), convert_or_take(value, below));
        }
    }
    Val::Map(Arc::new(out))
}
