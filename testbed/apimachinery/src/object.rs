//! Reading and writing the metadata of an object held as JSON.
//!
//! Accessors only: no rule about what metadata may be lives here.

use serde_json::{Map, Value};

/// `metadata`, if the object has it.
#[must_use]
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// `metadata`, made if it is missing or not an object.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let members = object.as_object_mut().expect("made an object just above");
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("made an object just above")
}

/// A string member of the metadata; empty when absent.
#[must_use]
pub fn meta_str<'a>(object: &'a Value, member: &str) -> &'a str {
    metadata(object)
        .and_then(|meta| meta.get(member))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A top-level string member; empty when absent.
#[must_use]
pub fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// A member of `metadata`. As in Go, a null is no value.
#[must_use]
pub fn meta_value<'a>(object: &'a Value, member: &str) -> Option<&'a Value> {
    metadata(object)?.get(member).filter(|value| !value.is_null())
}

/// `metadata.name`.
#[must_use]
pub fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

/// `metadata.namespace`.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    meta_str(object, "namespace")
}

/// `metadata.uid`.
#[must_use]
pub fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// `metadata.resourceVersion` as it is written.
#[must_use]
pub fn resource_version(object: &Value) -> &str {
    meta_str(object, "resourceVersion")
}

/// `metadata.generation`; 0 when the kind has none.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    meta_value(object, "generation").and_then(Value::as_i64).unwrap_or(0)
}

/// Whether deletion has begun.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    !meta_str(object, "deletionTimestamp").is_empty()
}

/// `metadata.finalizers`.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = meta_value(object, "finalizers").and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Sets `metadata.finalizers`; an empty list leaves the member out.
pub fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    set_or_remove(
        object,
        "finalizers",
        (!finalizers.is_empty()).then(|| finalizers.into()),
    );
}

/// Sets a member of the metadata, or removes it on `None`.
pub fn set_or_remove(object: &mut Value, member: &str, value: Option<Value>) {
    let meta = metadata_mut(object);
    match value {
        Some(value) => meta.insert(member.to_owned(), value),
        None => meta.remove(member),
    };
}

/// Sets `metadata.resourceVersion`.
pub fn set_resource_version(object: &mut Value, revision: u64) {
    metadata_mut(object).insert("resourceVersion".into(), revision.to_string().into());
}

/// Turns whole floats into integers: Go prints them without a fraction, so that is what is stored
/// and read back.
pub fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let printed = aplomb_go_compat::json(&Value::Number(number.clone()));
            if let Ok(integer) = printed.parse::<i64>() {
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(map) => map.values_mut().for_each(settle_numbers),
        _ => {}
    }
}

/// A copy at another version: what a DELETED event carries.
#[must_use]
pub fn at_version(object: &Value, revision: u64) -> Value {
    let mut copy = object.clone();
    set_resource_version(&mut copy, revision);
    copy
}

/// Whether two objects are the same but for `metadata.resourceVersion`.
#[must_use]
pub fn equal_but_version(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    equal_maps(a, b, "metadata", |a, b| match (a.as_object(), b.as_object()) {
        (Some(a), Some(b)) => equal_maps(a, b, "resourceVersion", |_, _| true),
        _ => a == b,
    })
}

fn equal_maps(
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    special: &str,
    equal: impl Fn(&Value, &Value) -> bool,
) -> bool {
    let null = Value::Null;
    let rest = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(special));
    rest(a) == rest(b)
        && equal(a.get(special).unwrap_or(&null), b.get(special).unwrap_or(&null))
        && a.iter()
            .filter(|(key, _)| *key != special)
            .all(|(key, value)| b.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equality_overlooks_the_version_and_nothing_else() {
        let a = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": 1});
        let b = json!({"metadata": {"name": "a"}, "spec": 1});
        let c = json!({"metadata": {"name": "a"}, "spec": 2});
        assert!(equal_but_version(&a, &b));
        assert!(!equal_but_version(&a, &c));
        assert!(!equal_but_version(&a, &json!({"metadata": {"name": "a"}})));
    }

    #[test]
    fn empty_finalizers_leave_no_member() {
        let mut object = json!({"metadata": {"finalizers": ["a"]}});
        set_finalizers(&mut object, &[]);
        assert_eq!(object, json!({"metadata": {}}));
    }
}
