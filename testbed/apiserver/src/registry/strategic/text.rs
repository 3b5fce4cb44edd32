//! JSON as Go prints maps, lists and types, for the messages of a refused patch.

use serde_json::{Map, Value};

use aplomb_go_compat as go;

/// A value as `%v` prints it.
pub(in crate::registry) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) if !is_integer(number) => go::float(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => shown_list(items),
        Value::Object(members) => shown_map(members),
    }
}

pub(super) fn shown_map(members: &Map<String, Value>) -> String {
    let members = members.iter().map(|(key, value)| format!("{key}:{}", shown(value)));
    format!("map[{}]", members.collect::<Vec<_>>().join(" "))
}

pub(super) fn shown_list(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(shown).collect();
    format!("[{}]", items.join(" "))
}

/// A value as `%s` prints it, which is made for strings.
pub(super) fn as_string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_string).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key}:{}", as_string(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        other => format!("%!s({}={})", type_name(other).unwrap_or_default(), shown(other)),
    }
}

/// The Go type a JSON value is read as; null has none.
pub(super) fn type_name(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(number) if is_integer(number) => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    })
}

fn is_integer(number: &serde_json::Number) -> bool {
    number.as_i64().is_some()
}
