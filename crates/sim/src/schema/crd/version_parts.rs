//! What a version declares besides its schema: printer columns, selectable fields, deprecation; and
//! how versions are converted into each other.

use serde_json::Value;

use super::spec::one_of;
use super::{is_true, selectable, text};
use crate::field::FieldError;
use crate::schema::structural::Structural;

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
            kind if !COLUMN_TYPES.contains(&kind) => {
                errors.push(FieldError::invalid(at("type"), kind, types))
            }
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

pub(super) fn validate_selectable(
    fields: Option<&Value>,
    schema: Option<&Value>,
    path: &str,
) -> Vec<FieldError> {
    let fields = fields
        .and_then(Value::as_array)
        .filter(|fields| !fields.is_empty());
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

pub(super) fn validate_conversion(spec: &Value) -> Vec<FieldError> {
    let conversion = &spec["conversion"];
    if conversion.is_null() {
        return Vec::new();
    }
    let strategy = text(conversion, "strategy");
    let mut errors: Vec<FieldError> = Vec::new();
    errors.extend(one_of(
        "spec.conversion.strategy",
        strategy,
        &["None", "Webhook"],
    ));
    let webhook = conversion
        .get("webhook")
        .filter(|webhook| !webhook.is_null());
    let client = webhook.and_then(|webhook| webhook.get("clientConfig"));
    let reviews = webhook
        .and_then(|w| w.get("conversionReviewVersions"))
        .and_then(Value::as_array);
    let (client_at, reviews_at) = (
        "spec.conversion.webhookClientConfig",
        "spec.conversion.conversionReviewVersions",
    );
    if strategy == "Webhook" {
        match client {
            None => errors.push(FieldError::required(
                client_at,
                "required when strategy is set to Webhook",
            )),
            Some(client) if client.get("url").is_some() == client.get("service").is_some() => {
                errors.push(FieldError::required(
                    client_at,
                    "exactly one of url or service is required",
                ));
            }
            Some(_) => {}
        }
        match reviews {
            Some(reviews) if !reviews.is_empty() => {
                if !reviews.iter().any(|v| v == "v1" || v == "v1beta1") {
                    let detail = "must include at least one of v1, v1beta1";
                    errors.push(FieldError::invalid(reviews_at, reviews.clone(), detail));
                }
            }
            _ => errors.push(FieldError::required(reviews_at, "")),
        }
        return errors;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    errors.extend(client.map(|_| FieldError::forbidden(client_at, detail)));
    errors.extend(
        reviews
            .filter(|r| !r.is_empty())
            .map(|_| FieldError::forbidden(reviews_at, detail)),
    );
    errors
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
