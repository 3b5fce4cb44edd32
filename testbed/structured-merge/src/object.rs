//! Whole objects: what they are called in messages, and how a body is taken in.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

/// An object without its owners, which are handled apart and can be larger than the rest.
pub(super) fn bare(object: &Value) -> Value {
    let Value::Object(map) = object else {
        return object.clone();
    };
    let without_owners = |metadata: &Map<String, Value>| {
        let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let field = |(name, value): (&String, &Value)| match (name.as_str(), value) {
        ("metadata", Value::Object(metadata)) => (name.clone(), Value::Object(without_owners(metadata))),
        _ => (name.clone(), value.clone()),
    };
    Value::Object(map.iter().map(field).collect())
}

/// Whether two objects have the same members, one of them aside.
pub(super) fn same_but(a: &Value, b: &Value, member: &str) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else {
        return a == b;
    };
    let others = |map: &'_ Map<String, Value>| map.len() - usize::from(map.contains_key(member));
    others(a) == others(b)
        && a.iter()
            .all(|(name, value)| name == member || b.get(name) == Some(value))
}

/// Whether two objects are equal without their owners.
pub(super) fn same_but_owners(a: &Value, b: &Value) -> bool {
    let same_metadata = match (a.get("metadata"), b.get("metadata")) {
        (Some(a), Some(b)) => same_but(a, b, "managedFields"),
        (a, b) => a == b,
    };
    same_metadata && same_but(a, b, "metadata")
}

pub(super) fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `namespace/name; group/version, Kind=kind`.
pub(super) fn described(object: &Value) -> String {
    let kind = type_text(text_at(object, "/apiVersion"), text_at(object, "/kind"));
    format!(
        "{}/{}; {kind}",
        text_at(object, "/metadata/namespace"),
        text_at(object, "/metadata/name")
    )
}

pub(super) fn type_text(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/').unwrap_or(("", api_version)) {
        (_, version) if version.contains('/') => "/, Kind=".to_owned(),
        (group, version) => format!("{group}/{version}, Kind={kind}"),
    }
}

/// An applied body as the server's YAML decoder leaves it: a whole float is an integer.
pub(super) fn as_decoded(value: &Value) -> Cow<'_, Value> {
    if has_float(value) {
        Cow::Owned(with_whole_numbers(value))
    } else {
        Cow::Borrowed(value)
    }
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        _ => false,
    }
}

fn with_whole_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole(number)),
        Value::Array(items) => items.iter().map(with_whole_numbers).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), with_whole_numbers(value)))
            .collect(),
        other => other.clone(),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "whole and within the bound, so exact")]
fn whole(number: &Number) -> Number {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => Number::from(float as i64),
        _ => number.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_floats_are_integers() {
        let body = json!({"a": [80.0, 1.5, 1e300, -2.0, 9_007_199_254_740_993_i64]});
        let want = json!({"a": [80, 1.5, 1e300, -2, 9_007_199_254_740_993_i64]});
        assert_eq!(*as_decoded(&body), want);
        assert_eq!(*as_decoded(&want["a"][0]), json!(80));
    }

    #[test]
    fn objects_are_named_with_their_type() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}});
        assert_eq!(described(&object), "n/p; /v1, Kind=Pod");
        assert_eq!(type_text("example.com/v1", "Widget"), "example.com/v1, Kind=Widget");
    }

    #[test]
    fn owners_make_no_difference() {
        let object =
            |owner: &str, data: &str| json!({"metadata": {"name": "p", "managedFields": [owner]}, "data": data});
        assert!(same_but_owners(&object("a", "1"), &object("b", "1")));
        assert!(!same_but_owners(&object("a", "1"), &object("a", "2")));
        let bare = json!({"metadata": {"name": "p"}, "data": "1"});
        assert!(same_but_owners(&object("a", "1"), &bare));
        assert!(!same_but_owners(&json!({"data": "1"}), &bare));
    }

    #[test]
    fn only_the_owners_are_left_out() {
        let object = json!({"metadata": {"name": "p", "managedFields": []}, "spec": {"managedFields": 1}});
        assert_eq!(
            bare(&object),
            json!({"metadata": {"name": "p"}, "spec": {"managedFields": 1}})
        );
        assert_eq!(bare(&json!([1])), json!([1]));
    }
}
