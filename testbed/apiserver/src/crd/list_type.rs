//! Duplicates in lists that are sets or maps.

use aplomb_apimachinery::field::FieldError;
use serde_json::{Map, Value};

use super::structural::Structural;

/// Every duplicate below `value` in a list of `x-kubernetes-list-type` set or map.
#[must_use]
pub fn validate(value: &Value, schema: &Structural) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(value, schema, "", &mut errors);
    errors
}

fn walk(value: &Value, schema: &Structural, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (key, member) in map {
                if let Some(additional) = schema.additional_schema() {
                    walk(member, additional, &format!("{path}[{key}]"), errors);
                }
                if let Some(property) = schema.properties.get(key) {
                    walk(member, property, &child(path, key), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.extensions.list_type.as_deref() {
                Some("set") => errors.extend(duplicates(items, path)),
                Some("map") => errors.extend(duplicate_keys(items, schema, path)),
                _ => {}
            }
            if let Some(item_schema) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    walk(item, item_schema, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The second occurrence of each repeated value; later ones are not reported again.
fn duplicates(items: &[Value], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if items[..index].iter().filter(|earlier| *earlier == item).count() == 1 {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), item.clone()));
        }
    }
    errors
}

fn duplicate_keys(items: &[Value], schema: &Structural, path: &str) -> Vec<FieldError> {
    let mut keys = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match item {
            Value::Null => keys.push(Value::Object(Map::new())),
            Value::Object(map) => keys.push(key_of(map, &schema.extensions.list_map_keys)),
            other => {
                let detail = "must be an object for an array of list-type map";
                return vec![FieldError::invalid(format!("{path}[{index}]"), other.clone(), detail)];
            }
        }
    }
    duplicates(&keys, path)
}

fn key_of(item: &Map<String, Value>, names: &[String]) -> Value {
    let members = names
        .iter()
        .filter_map(|name| item.get(name).map(|v| (name.clone(), v.clone())));
    Value::Object(members.collect())
}
