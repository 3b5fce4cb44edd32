//! What a version declares besides its schema: printer columns, selectable fields, deprecation; and
//! how versions are converted into each other.

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use super::spec::one_of;
use super::{is_true, selectable, text};
use crate::crd::structural::Structural;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

pub(super) fn validate_columns(columns: Option<&Value>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let columns = columns.and_then(Value::as_array).into_iter().flatten();
    for (index, column) in columns.enumerate() {
        let at = |key: &str| format!("{path}[{index}].{key}");
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => errors.push(FieldError::required(at("type"), types)),
            kind if !COLUMN_TYPES.contains(&kind) => errors.push(FieldError::invalid(at("type"), kind, types)),
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(at("format"), format, detail));
        }
        match text(column, "jsonPath") {
            "" => errors.push(FieldError::required(at("JSONPath"), "")),
            json_path if !json_path.starts_with('.') => {
                let detail = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(at("JSONPath"), json_path, detail));
            }
            _ => {}
        }
    }
    errors
}

pub(super) fn validate_selectable(fields: Option<&Value>, schema: Option<&Value>, path: &str) -> Vec<FieldError> {
    let fields = fields.and_then(Value::as_array).filter(|fields| !fields.is_empty());
    let schema = schema
        .and_then(|schema| schema.get("openAPIV3Schema"))
        .map(Structural::parse);
    match (fields, schema) {
        (None, _) => Vec::new(),
        (Some(fields), Some(schema)) => selectable::validate(fields, &schema, path),
        (Some(_), None) => {
            vec![FieldError::invalid(
                path,
                "",
                "may only be set when validations.schema is included",
            )]
        }
    }
}

const CLIENT_AT: &str = "spec.conversion.webhookClientConfig";
const REVIEWS_AT: &str = "spec.conversion.conversionReviewVersions";

pub(super) fn validate_conversion(spec: &Value) -> Vec<FieldError> {
    let conversion = &spec["conversion"];
    if conversion.is_null() {
        return Vec::new();
    }
    let strategy = text(conversion, "strategy");
    let known = ["None", "Webhook"];
    let mut errors: Vec<FieldError> = Vec::new();
    errors.extend(one_of("spec.conversion.strategy", strategy, &known));
    let webhook = &conversion["webhook"];
    let client = webhook.get("clientConfig");
    let reviews = webhook["conversionReviewVersions"].as_array();
    let reviews = reviews.filter(|reviews| !reviews.is_empty());
    if strategy == "Webhook" {
        errors.extend(validate_client(client));
        errors.extend(validate_reviews(reviews));
        return errors;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    errors.extend(client.map(|_| FieldError::forbidden(CLIENT_AT, detail)));
    errors.extend(reviews.map(|_| FieldError::forbidden(REVIEWS_AT, detail)));
    errors
}

fn validate_client(client: Option<&Value>) -> Option<FieldError> {
    let has = |key: &str| client.is_some_and(|client| client.get(key).is_some());
    let detail = match client {
        None => "required when strategy is set to Webhook",
        Some(_) if has("url") == has("service") => "exactly one of url or service is required",
        Some(_) => return None,
    };
    Some(FieldError::required(CLIENT_AT, detail))
}

fn validate_reviews(reviews: Option<&Vec<Value>>) -> Option<FieldError> {
    let Some(reviews) = reviews else {
        return Some(FieldError::required(REVIEWS_AT, ""));
    };
    let understood = reviews.iter().any(|v| v == "v1" || v == "v1beta1");
    let detail = "must include at least one of v1, v1beta1";
    (!understood).then(|| FieldError::invalid(REVIEWS_AT, reviews.clone(), detail))
}

pub(super) fn validate_deprecation(version: &Value, path: &str) -> Option<FieldError> {
    let warning = version.get("deprecationWarning").and_then(Value::as_str)?;
    let detail = match warning {
        _ if !is_true(version, "deprecated") => "can only be set for deprecated versions",
        "" => "must not be an empty string",
        text if text.len() > 256 => "must be <= 256 characters long",
        _ => return None,
    };
    Some(FieldError::invalid(
        format!("{path}.deprecationWarning"),
        warning,
        detail,
    ))
}
