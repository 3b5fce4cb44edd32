//! JSON values as rules see them, by the type their schema gives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Map, Value};

use super::escape::escape;
use super::times::{parse_duration, parse_timestamp};
use super::value::{Key, ListKind, Val};
use crate::schema::structural::Structural;

/// The value of `json` as it stands.
pub(crate) fn value_of(json: &Value) -> Val {
    convert(json, None)
}

/// The value of `json` under `schema`; without one, as it stands.
pub(super) fn convert(json: &Value, schema: Option<&Structural>) -> Val {
    if let Some(why) = schema.and_then(|schema| mismatch(json, schema)) {
        return Val::Invalid(why.into());
    }
    match json {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::Bool(*value),
        Value::Number(number) => match (number.as_i64(), schema.map(|s| s.type_name.as_str())) {
            (Some(value), Some("number")) => Val::Double(double(value)),
            (Some(value), _) => Val::Int(value),
            (None, _) => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => convert_text(text, schema),
        Value::Array(items) => convert_list(items, schema),
        Value::Object(map) => convert_map(map, schema),
    }
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
        "object" => (
            json.is_object(),
            "a map for the provided schema with type=object",
        ),
        "array" => (
            json.is_array(),
            "an array for the provided schema with type=array",
        ),
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

fn convert_text(text: &str, schema: Option<&Structural>) -> Val {
    let format = schema
        .filter(|s| s.type_name == "string")
        .map_or("", |s| s.format.as_str());
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

fn convert_list(items: &[Value], schema: Option<&Structural>) -> Val {
    let item_schema = schema.and_then(|s| s.items.as_deref());
    let kind = match schema.map(|s| &s.extensions) {
        Some(x) if x.list_type.as_deref() == Some("set") => ListKind::Set,
        Some(x) if x.list_type.as_deref() == Some("map") => {
            ListKind::Map(x.list_map_keys.clone().into())
        }
        _ => ListKind::Atomic,
    };
    Val::List(
        Arc::new(
            items
                .iter()
                .map(|item| convert(item, item_schema))
                .collect(),
        ),
        kind,
    )
}

/// Keys of maps are data and stay; names of properties are escaped, and those that cannot be are
/// not visible.
fn convert_map(map: &Map<String, Value>, schema: Option<&Structural>) -> Val {
    let mut out = BTreeMap::new();
    for (key, value) in map {
        let property = schema.and_then(|s| s.properties.get(key));
        let is_field = property.is_some() || schema.is_some_and(|s| s.additional.is_none());
        let name = if is_field {
            escape(key)
        } else {
            Some(key.clone())
        };
        let child = property.or_else(|| schema.and_then(Structural::additional_schema));
        if let Some(name) = name {
            out.insert(Key::String(name.into()), convert(value, child));
        }
    }
    Val::Map(Arc::new(out))
}
