//! Values as validation messages show them: JSON in the order of the Go struct's fields, spelled as
//! in Go where the server shows one of its internal types.

use aplomb_apimachinery::field::{ErrorType, FieldError};
use serde_json::Value;

use super::value::{at, list, text};

/// `Invalid value` showing `raw` as it stands.
pub(super) fn invalid(field: impl Into<String>, raw: &str, why: &str) -> FieldError {
    let detail = if why.is_empty() {
        raw.to_owned()
    } else {
        format!("{raw}: {why}")
    };
    FieldError {
        kind: ErrorType::Invalid,
        field: field.into(),
        value: None,
        detail,
    }
}

/// `Duplicate value` showing `raw` as it stands.
pub(super) fn duplicate(field: impl Into<String>, raw: &str, why: &str) -> FieldError {
    FieldError {
        kind: ErrorType::Duplicate,
        ..invalid(field, raw, why)
    }
}

/// `Unsupported value` showing `raw` as it stands.
pub(super) fn not_supported(field: impl Into<String>, raw: &str, allowed: &[&str]) -> FieldError {
    let FieldError { detail, .. } = FieldError::not_supported("", "", allowed);
    FieldError {
        kind: ErrorType::NotSupported,
        ..invalid(field, raw, &detail)
    }
}

/// An object of already printed members, in the order given.
pub(super) fn object(members: &[(&str, String)]) -> String {
    let printed: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{}:{value}", Value::from(*key)))
        .collect();
    format!("{{{}}}", printed.join(","))
}

/// A label selector.
pub(super) fn selector(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
    let mut members = Vec::new();
    if !at(selector, &["matchLabels"]).is_null() {
        members.push(("matchLabels", at(selector, &["matchLabels"]).to_string()));
    }
    let expressions = list(selector, &["matchExpressions"]);
    if !expressions.is_empty() {
        let printed: Vec<String> = expressions.iter().map(requirement).collect();
        members.push(("matchExpressions", format!("[{}]", printed.join(","))));
    }
    object(&members)
}

fn requirement(expression: &Value) -> String {
    let mut members = vec![
        ("key", Value::from(text(expression, &["key"])).to_string()),
        ("operator", Value::from(text(expression, &["operator"])).to_string()),
    ];
    if !list(expression, &["values"]).is_empty() {
        members.push(("values", at(expression, &["values"]).to_string()));
    }
    object(&members)
}
