//! One value of an object, printed as the API server prints a column of its type.

use jiff::Timestamp;
use serde_json::{Number, Value};

use super::age;

/// The printed text; empty if the value does not fit the type.
pub(super) fn cell_text(type_: &str, value: &Value, at: Timestamp) -> String {
    match (type_, value) {
        ("string", Value::String(text)) => one_line(text),
        ("string", Value::Null) => "<no value>".to_owned(),
        ("string", other) => other.to_string(),
        ("boolean", Value::Bool(value)) => value.to_string(),
        ("integer", Value::Number(number)) => integer_value(number).to_string(),
        ("number", Value::Number(number)) => number.to_string(),
        ("date", Value::String(time)) => age::format_age(time, at),
        _ => String::new(),
    }
}

/// Cut at the first line end and marked, as kubectl does.
fn one_line(text: &str) -> String {
    match text.find(['\n', '\r', '\u{c}']) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[allow(clippy::cast_possible_truncation)] // the API server truncates floats in integer columns
fn integer_value(number: &Number) -> i64 {
    number
        .as_i64()
        .unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
}
