//! `x-kubernetes-validations` in a definition: their form.

use serde_json::Value;

use super::{selectable, text};
use crate::field::FieldError;
use crate::schema::structural::Structural;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Everything wrong with the members of a node's rules, short of compiling them.
pub(super) fn validate_form(schema: &Value, path: &str) -> Vec<FieldError> {
    let rules = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    let mut errors = Vec::new();
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let at = format!("{path}.x-kubernetes-validations[{index}]");
        errors.extend(validate_texts(rule, &at));
        errors.extend(validate_reason(rule, &at));
        errors.extend(validate_field_path(rule, schema, &at));
    }
    errors
}

fn validate_texts(rule: &Value, at: &str) -> Vec<FieldError> {
    let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
    let message_at = format!("{at}.message");
    let mut errors = Vec::new();
    if expression.is_empty() {
        errors.push(FieldError::required(
            format!("{at}.rule"),
            "rule is not specified",
        ));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(
            message_at,
            message,
            "must be non-empty if specified",
        ));
    } else if has_line_breaks(message.trim()) {
        errors.push(FieldError::invalid(
            message_at,
            message,
            "must not contain line breaks",
        ));
    } else if has_line_breaks(expression) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(message_at, detail));
    }
    let expression = text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(
            format!("{at}.messageExpression"),
            detail,
        ));
    }
    errors
}

fn validate_reason(rule: &Value, at: &str) -> Option<FieldError> {
    let reason = rule.get("reason").and_then(Value::as_str)?;
    (!REASONS.contains(&reason))
        .then(|| FieldError::not_supported(format!("{at}.reason"), reason, &REASONS))
}

fn validate_field_path(rule: &Value, schema: &Value, at: &str) -> Vec<FieldError> {
    let field_path = text(rule, "fieldPath");
    let at = format!("{at}.fieldPath");
    let mut errors = Vec::new();
    if field_path.is_empty() {
        return errors;
    }
    if field_path.trim().is_empty() {
        errors.push(FieldError::invalid(
            at.clone(),
            field_path,
            "must be non-empty if specified",
        ));
    }
    if has_line_breaks(field_path) {
        errors.push(FieldError::invalid(
            at.clone(),
            field_path,
            "must not contain line breaks",
        ));
    }
    if selectable::resolve(field_path, &Structural::parse(schema), true).is_err() {
        errors.push(FieldError::invalid(at, field_path, "must be a valid path"));
    }
    errors
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
