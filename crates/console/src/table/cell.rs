//! One value of an object as the server prints it in a column of a type.

use jiff::Timestamp;
use serde_json::{Number, Value};

use super::age;

/// What is printed; empty where the type and the value do not go together.
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

/// kubectl cuts a text at its first line end, and says so.
fn one_line(text: &str) -> String {
    match text.find(['\n', '\r', '\u{c}']) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[allow(clippy::cast_possible_truncation)] // the server truncates floats in integer columns
fn integer_value(number: &Number) -> i64 {
    number
        .as_i64()
        .unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
}
