//! Equality, order and text of JSON values as structured merge sees them.
//!
//! Numbers are compared by what they mean (`1` and `1.0` are one value), which
//! `serde_json::Value` does not do; text follows Go's verbs because it ends up in messages.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use aplomb_go_compat as go;

/// Whether two values mean the same.
#[must_use]
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => compare_numbers(x, y) == Ordering::Equal,
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        (x, y) => x == y,
    }
}

/// A total order over values of all types: numbers, strings, booleans, lists, maps, null.
#[must_use]
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => compare_numbers(x, y),
        (Value::String(x), Value::String(y)) => x.cmp(y),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Array(x), Value::Array(y)) => compare_lists(x, y),
        (Value::Object(x), Value::Object(y)) => compare_maps(x, y),
        (x, y) => rank(x).cmp(&rank(y)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(x), Some(y)) => x.cmp(&y),
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn compare_lists(a: &[Value], b: &[Value]) -> Ordering {
    let items = a.iter().zip(b).map(|(x, y)| compare(x, y));
    items.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
}

fn compare_maps(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    let (mut left, mut right): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
    left.sort_by_key(|(key, _)| *key);
    right.sort_by_key(|(key, _)| *key);
    let items = left
        .iter()
        .zip(&right)
        .map(|(x, y)| x.0.cmp(y.0).then_with(|| compare(x.1, y.1)));
    items.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
}

/// The value as a path shows it: `[name="a"]`.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number_text(n),
        Value::String(s) => go::quote(s),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(","))
        }
        Value::Object(map) => map.iter().map(|(k, v)| format!("{k}={}", text(v))).collect(),
    }
}

/// A number as Go's `%v` prints it.
fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(int), _) => int.to_string(),
        (None, Some(float)) => go::float(float),
        (None, None) => number.to_string(),
    }
}

/// A Go value as `%v` prints it inside `got &{...}`.
#[must_use]
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number_text(n),
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let fields: Vec<_> = map.iter().map(|(k, v)| format!("{k}:{}", go_value(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// A Go value as `%#v` prints it.
#[must_use]
pub fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(s) => go::quote(s),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<_> = map
                .iter()
                .map(|(k, v)| format!("{}:{}", go::quote(k), go_syntax(v)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => go_value(scalar),
    }
}

/// The Go type that holds a decoded value, as `%T` prints it.
#[must_use]
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_by_meaning() {
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(equal(&json!({"a": [1]}), &json!({"a": [1.0]})));
        assert!(!equal(&json!(1), &json!("1")));
        assert_eq!(compare(&json!(2), &json!(1.5)), Ordering::Greater);
    }

    #[test]
    fn types_have_an_order() {
        let sorted = [json!(1), json!("a"), json!(false), json!([]), json!({}), json!(null)];
        for pair in sorted.windows(2) {
            assert_eq!(compare(&pair[0], &pair[1]), Ordering::Less, "{pair:?}");
        }
        assert_eq!(compare(&json!([1, 2]), &json!([1])), Ordering::Greater);
        assert_eq!(compare(&json!({"a": 1}), &json!({"a": 2})), Ordering::Less);
    }

    #[test]
    fn values_are_printed_with_gos_verbs() {
        let value = json!({"a": ["x", 1, null]});
        assert_eq!(go_value(&value), "map[a:[x 1 <nil>]]");
        assert_eq!(
            go_syntax(&value),
            r#"map[string]interface {}{"a":[]interface {}{"x", 1, interface {}(nil)}}"#
        );
        assert_eq!(text(&json!({"a": ["x", true, 1e6]})), r#"a=["x",true,1e+06]"#);
    }
}
