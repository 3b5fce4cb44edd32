//! `null` for unset fields. Servers written in Go write it for an empty list or map of some built-in
//! kinds (an EndpointSlice without endpoints, a Role without rules), and read it as a missing field.
//! This module does the same for fields of any type.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a part of an object.
///
/// # Errors
/// It does not fit, even without its nulls.
pub fn read<T: DeserializeOwned>(object: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(object).or_else(|_| serde_json::from_value(without_nulls(object.clone())))
}

/// The same from text that did not fit at first.
pub(crate) fn read_without_nulls<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_value(without_nulls(serde_json::from_slice(bytes)?))
}

fn without_nulls(mut object: Value) -> Value {
    drop_nulls(&mut object);
    object
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Copies of `object` in which one list or map is null, with the path to it: for tests that a view
/// reads each of them.
#[must_use]
pub fn null_variants(object: &Value) -> Vec<(String, Value)> {
    let mut paths = Vec::new();
    collect(object, String::new(), &mut paths);
    let nulled = |path: String| {
        let mut object = object.clone();
        *object.pointer_mut(&path)? = Value::Null;
        Some((path, object))
    };
    paths.into_iter().filter_map(nulled).collect()
}

fn collect(value: &Value, path: String, paths: &mut Vec<String>) {
    let mut below = |name: &str, value: &Value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        collect(value, format!("{path}/{name}"), paths);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, it)| below(name, it)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, it)| below(&index.to_string(), it));
        }
        _ => return,
    }
    // An object without a name is invalid, and an item of a list cannot be left out.
    let whole = path.is_empty() || path == "/metadata";
    let item = path.rsplit('/').next().is_some_and(|it| it.parse::<usize>().is_ok());
    if !whole && !item {
        paths.push(path);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Deep {
        list: Vec<Deep>,
        map: BTreeMap<String, Vec<String>>,
        text: String,
        number: u32,
        flag: bool,
        #[serde(flatten)]
        rest: Rest,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Rest {
        more: Vec<String>,
    }

    #[test]
    fn a_null_of_any_type_at_any_depth_is_a_field_that_is_left_out() {
        let nulls = json!({ "list": null, "map": null, "text": null, "number": null,
            "flag": null, "more": null });
        assert_eq!(read::<Deep>(&nulls).expect("the value can be read"), Deep::default());
        let deep = json!({ "list": [{ "list": [nulls], "map": { "a": null, "b": ["c"] } }] });
        let deep: Deep = read(&deep).expect("the value can be read");
        assert_eq!(deep.list[0].list, [Deep::default()]);
        assert_eq!(deep.list[0].map.len(), 1);
    }

    #[test]
    fn what_does_not_fit_without_nulls_does_not_fit() {
        assert!(read::<Deep>(&json!({ "list": 1, "map": null })).is_err());
        assert!(read_without_nulls::<Deep>(b"{\"list\":null").is_err());
    }

    #[test]
    fn every_list_and_map_is_nulled_once() {
        let object = json!({ "metadata": { "name": "x", "labels": { "a/b": "c" } },
            "spec": { "rules": [{ "paths": [] }] } });
        let paths: Vec<String> = null_variants(&object).into_iter().map(|it| it.0).collect();
        assert_eq!(
            paths,
            ["/metadata/labels", "/spec/rules/0/paths", "/spec/rules", "/spec"]
        );
    }
}
