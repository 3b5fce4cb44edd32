//! The smallest rules, which every kind's validation is made of. Each returns what is wrong.

use aplomb_apimachinery::field::{ErrorType, FieldError};
use serde_json::Value;

use super::quantity::Quantity;
use super::value::{at, list, number, text};

/// A string that may not be empty.
pub(super) fn given(object: &Value, key: &str, field: &str, why: &str) -> Vec<FieldError> {
    match text(object, &[key]) {
        "" => vec![FieldError::required(format!("{field}.{key}"), why)],
        _ => Vec::new(),
    }
}

/// A string that may not be empty and must be as `rule` says.
pub(super) fn named(object: &Value, key: &str, field: &str, rule: fn(&str) -> Vec<String>) -> Vec<FieldError> {
    let missing = given(object, key, field, "");
    if missing.is_empty() {
        let field = format!("{field}.{key}");
        return super::check::invalid(&field, text(object, &[key]), rule(text(object, &[key])));
    }
    missing
}

/// A number, when there is one, that `holds`.
pub(super) fn holds(object: &Value, key: &str, field: &str, rule: fn(i64) -> bool, why: &str) -> Option<FieldError> {
    let value = number(object, &[key])?;
    (!rule(value)).then(|| FieldError::invalid(format!("{field}.{key}"), value, why))
}

/// A string, when there is one, out of a fixed set.
pub(super) fn known(object: &Value, key: &str, field: &str, allowed: &[&str]) -> Vec<FieldError> {
    match at(object, &[key]).as_str() {
        Some(value) => super::check::one_of(&format!("{field}.{key}"), value, allowed),
        None => Vec::new(),
    }
}

/// A string, when there is one, that must be as `rule` says.
pub(super) fn spelled(object: &Value, key: &str, field: &str, rule: fn(&str) -> Vec<String>) -> Vec<FieldError> {
    match at(object, &[key]).as_str() {
        Some(value) => super::check::invalid(&format!("{field}.{key}"), value, rule(value)),
        None => Vec::new(),
    }
}

/// A list whose items must each be as `rule` says.
pub(super) fn each(
    object: &Value,
    key: &str,
    field: &str,
    mut rule: impl FnMut(&Value, &str) -> Vec<FieldError>,
) -> Vec<FieldError> {
    list(object, &[key])
        .iter()
        .enumerate()
        .flat_map(|(index, item)| rule(item, &format!("{field}.{key}[{index}]")))
        .collect()
}

/// A quantity, when there is one, of more than nothing.
pub(super) fn positive(object: &Value, key: &str, field: &str, why: &str) -> Option<FieldError> {
    let value = at(object, &[key]);
    let quantity = Quantity::parse(value.as_str()?).ok()?;
    let wrong = quantity.is_negative() || quantity.is_zero();
    wrong.then(|| FieldError::new(ErrorType::Invalid, format!("{field}.{key}"), value.clone(), why))
}

/// A quantity, when there is one, of no less than nothing.
pub(super) fn nonnegative_quantity(value: &Value, field: &str) -> Option<FieldError> {
    let quantity = Quantity::parse(value.as_str()?).ok()?;
    quantity.is_negative().then(|| {
        FieldError::new(
            ErrorType::Invalid,
            field,
            value.clone(),
            "must be greater than or equal to 0",
        )
    })
}
