//! Validation of a value against a structural schema, with the server's causes.
//!
//! The order of checks and the wording are those of the server's OpenAPI validator; rules in CEL,
//! list types and embedded objects are checked elsewhere.

mod composite;
mod failure;
pub mod formats;
mod members;
mod numbers;

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use super::ratchet::Correlated;
use super::structural::Structural;
use failure::{Failure, Report};

/// Everything wrong with `value`; paths start at `prefix` (empty for a whole object).
#[must_use]
pub fn validate(value: &Value, schema: &Structural, prefix: &str) -> Vec<FieldError> {
    let report = Walk { ratchet: None }.check(value, schema, "");
    report.into_field_errors(prefix)
}

/// The same for an update: what did not change is not reported.
#[must_use]
pub fn validate_update(pair: Correlated<'_>, schema: &Structural, prefix: &str) -> Vec<FieldError> {
    ratcheting(pair, schema, "").into_field_errors(prefix)
}

fn ratcheting(pair: Correlated<'_>, schema: &Structural, path: &str) -> Report {
    let walk = Walk {
        ratchet: Some((pair, path.is_empty())),
    };
    let report = walk.check(pair.new, schema, path);
    if !report.is_valid() && pair.unchanged() {
        return Report {
            failures: Vec::new(),
            matches: report.matches,
        };
    }
    report
}

/// One level of the walk. Below a value without a counterpart nothing has one.
#[derive(Clone, Copy)]
struct Walk<'a> {
    ratchet: Option<(Correlated<'a>, bool)>,
}

impl Walk<'_> {
    fn member(&self, name: &str, value: &Value, schema: &Structural, path: &str) -> Report {
        if let Some((pair, at_root)) = &self.ratchet {
            let type_meta = *at_root && matches!(name, "kind" | "apiVersion");
            if let (false, Some(child)) = (type_meta, pair.key(name)) {
                return ratcheting(child, schema, path);
            }
        }
        Walk { ratchet: None }.check(value, schema, path)
    }

    fn item(&self, index: usize, value: &Value, schema: &Structural, path: &str) -> Report {
        match self.ratchet.as_ref().and_then(|(pair, _)| pair.index(index)) {
            Some(child) => ratcheting(child, schema, path),
            None => Walk { ratchet: None }.check(value, schema, path),
        }
    }

    fn check(&self, value: &Value, schema: &Structural, path: &str) -> Report {
        let mut report = Report::default();
        if value.is_null() {
            report.merge(check_null(schema, path));
            report.merge(check_enum(value, schema, path));
            return report;
        }
        let format = formats::supported(schema);
        if !type_names(schema).is_empty() || !format.is_empty() {
            report.merge_counted(check_type(value, schema, format, path));
        }
        report.merge_counted(composite::check(&Walk { ratchet: None }, value, schema, path));
        if let Value::String(text) = value {
            report.merge_counted(check_string(text, schema, path));
            if formats::is_string_format(format) {
                report.merge_counted(check_format(text, format, path));
            }
        }
        if let Value::Number(number) = value {
            report.merge_counted(numbers::check(number, schema, path));
        }
        if let Value::Array(items) = value {
            report.merge_counted(members::check_array(self, items, schema, path));
        }
        report.merge_counted(check_enum(value, schema, path));
        if let Value::Object(map) = value {
            report.merge_counted(members::check_object(self, map, schema, path));
        }
        report.matches += 1;
        report
    }
}

fn type_names(schema: &Structural) -> Vec<&str> {
    match schema.type_name.as_str() {
        _ if schema.extensions.int_or_string => vec!["integer", "string"],
        "" => Vec::new(),
        name => vec![name],
    }
}

fn check_null(schema: &Structural, path: &str) -> Report {
    let names = type_names(schema);
    if names.is_empty() || names.contains(&"null") || schema.nullable {
        return Report::matched();
    }
    Report::failed(Failure::wrong_type(path, &names.join(","), "null"))
}

fn check_type(value: &Value, schema: &Structural, format: &str, path: &str) -> Report {
    let names = type_names(schema);
    let actual = type_of(value);
    let float_is_integer = names.contains(&"integer") && numbers::is_integral(value);
    let integer_is_float = actual == "integer" && names.contains(&"number");
    if names.contains(&actual) || float_is_integer || integer_is_float {
        return Report::matched();
    }
    let is_text_or_list = value.is_string() || value.is_array();
    let numeric = names.contains(&"number") || names.contains(&"integer");
    if !numeric && !format.is_empty() && is_text_or_list {
        return Report::matched();
    }
    if !format.is_empty() && !is_text_or_list {
        return Report::failed(Failure::wrong_type(path, format, number_format(value)));
    }
    Report::failed(Failure::wrong_type(path, &names.join(","), actual))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn number_format(value: &Value) -> &'static str {
    match type_of(value) {
        "integer" => "int64",
        "number" => "float64",
        _ => "",
    }
}

fn check_string(text: &str, schema: &Structural, path: &str) -> Report {
    let limits = &schema.limits;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = limits.max_length.filter(|max| length > *max) {
        return Report::failed(Failure::too_long(path, max));
    }
    if let Some(min) = limits.min_length.filter(|min| length < *min) {
        let why = format!("should be at least {min} chars long");
        return Report::failed(Failure::invalid(path, text.into(), &why));
    }
    if let Some(pattern) = limits.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        let why = format!("should match '{}'", pattern.source);
        return Report::failed(Failure::invalid(path, text.into(), &why));
    }
    Report::default()
}

fn check_format(text: &str, format: &str, path: &str) -> Report {
    if formats::matches(format, text) {
        return Report::default();
    }
    Report::failed(Failure::wrong_type(path, format, text))
}

fn check_enum(value: &Value, schema: &Structural, path: &str) -> Report {
    let allowed = &schema.limits.enumeration;
    if allowed.is_empty() || allowed.iter().any(|candidate| numbers::same(candidate, value)) {
        return Report::default();
    }
    Report::failed(Failure::not_in_enum(path, value, allowed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn new_items_of_a_list_map_are_checked_as_themselves() {
        let rule = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
        let rules = json!({"type": "array", "items": rule});
        let port = json!({"type": "object", "properties": {"port": {"type": "integer"}, "rules": rules}});
        let schema = Structural::parse(&json!({
            "type": "array", "items": port,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
        }));
        let old = json!([{"port": 443}]);
        let new = json!([{"port": 80, "rules": [{"name": "a"}, {"name": "b"}]}, {"port": 443, "rules": []}]);
        assert_eq!(
            validate_update(Correlated::new(&new, &old, &schema), &schema, "ports"),
            []
        );
    }
}
