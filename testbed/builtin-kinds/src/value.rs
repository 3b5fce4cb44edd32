//! Short ways to read and write JSON objects whose shape decoding has already checked.

use serde_json::{Map, Value, json};

static NULL: Value = Value::Null;

/// What is at `path`; null when there is nothing.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(object, |value, key| value.get(key).unwrap_or(&NULL))
}

/// The string at `path`; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).as_str().unwrap_or("")
}

/// The list at `path`; empty when there is none.
pub(super) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).as_array().map_or(&[], Vec::as_slice)
}

/// The members of the object at `path`; none when there is none.
pub(super) fn members<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(object, path).as_object().into_iter().flatten()
}

/// The whole number at `path`.
pub(super) fn number(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).as_i64()
}

/// Whether there is something at `path`.
pub(super) fn has(object: &Value, path: &[&str]) -> bool {
    !at(object, path).is_null()
}

/// The object at `path`, to change it; `None` when there is none.
pub(super) fn object_mut<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter()
        .try_fold(object, |value, key| value.get_mut(key))?
        .as_object_mut()
}

/// The items of the list at `path`, to change them.
pub(super) fn items_mut<'a>(object: &'a mut Value, path: &[&str]) -> impl Iterator<Item = &'a mut Value> {
    path.iter()
        .try_fold(object, |value, key| value.get_mut(key))
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Sets `key` of `object` when it is absent, null or an empty string.
pub(super) fn default_to(object: &mut Value, key: &str, value: impl Into<Value>) {
    let Value::Object(map) = object else { return };
    let unset = map.get(key).is_none_or(|v| v.is_null() || v == "");
    if unset {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets or removes (with null) what is at `path`, making the objects on the way.
pub(super) fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut current = object;
    for key in parents {
        let Value::Object(map) = current else { return };
        if value.is_null() && !map.contains_key(*key) {
            return;
        }
        current = map.entry((*key).to_owned()).or_insert_with(|| json!({}));
    }
    let Value::Object(map) = current else { return };
    if value.is_null() {
        map.remove(*last);
    } else {
        map.insert((*last).to_owned(), value);
    }
}

/// Puts what `old` has at `path` into `object`.
pub(super) fn restore(object: &mut Value, old: &Value, path: &[&str]) {
    set(object, path, at(old, path).clone());
}

/// Adds a finalizer that keeps an object while it is in use.
pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = list(object, &["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|present| present == finalizer) {
        finalizers.push(finalizer.into());
    }
    set(object, &["metadata", "finalizers"], finalizers.into());
}
