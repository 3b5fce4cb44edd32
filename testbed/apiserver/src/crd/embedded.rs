//! Objects inside objects (`x-kubernetes-embedded-resource`): their metadata is read and checked
//! like a resource's own.

use aplomb_apimachinery::field::FieldError;
use serde_json::{Map, Value};

use super::object_meta;
use super::structural::Structural;

/// Reads the metadata of every embedded object, dropping what ObjectMeta does not have.
///
/// # Errors
/// The first embedded object whose type or metadata cannot be read.
pub fn coerce(object: &mut Value, schema: &Structural) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    walk(object, schema, "", &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn walk(value: &mut Value, schema: &Structural, path: &str, unknown: &mut Vec<String>) -> Result<(), FieldError> {
    match value {
        Value::Object(map) => {
            if schema.extensions.embedded_resource {
                coerce_one(map, path, unknown)?;
            }
            for (key, member) in map {
                if let Some(property) = schema.properties.get(key) {
                    walk(member, property, &child(path, key), unknown)?;
                } else if let Some(additional) = schema.additional_schema() {
                    walk(member, additional, &format!("{path}[{key}]"), unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in items.iter_mut().enumerate() {
                    walk(item, schema, &format!("{path}[{index}]"), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_one(map: &mut Map<String, Value>, path: &str, unknown: &mut Vec<String>) -> Result<(), FieldError> {
    for key in ["apiVersion", "kind"] {
        if let Some(other) = map.get(key).filter(|v| !v.is_string()) {
            return Err(FieldError::invalid(child(path, key), other.clone(), "must be a string"));
        }
    }
    let Some(metadata) = map.get("metadata") else {
        return Ok(());
    };
    let at = child(path, "metadata");
    let coerced =
        object_meta::coerce(metadata).map_err(|message| FieldError::invalid(at.clone(), metadata.clone(), message))?;
    unknown.extend(coerced.unknown.iter().map(|name| format!("{at}.{name}")));
    map.insert("metadata".into(), Value::Object(coerced.metadata));
    Ok(())
}

/// Everything wrong with embedded objects' apiVersion, kind and metadata.
#[must_use]
pub fn validate(object: &Value, schema: &Structural) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_at(object, schema, "", &mut errors);
    errors
}

fn validate_at(value: &Value, schema: &Structural, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if schema.extensions.embedded_resource {
                validate_one(map, path, errors);
            }
            for (key, member) in map {
                if let Some(property) = schema.properties.get(key) {
                    validate_at(member, property, &child(path, key), errors);
                } else if let Some(additional) = schema.additional_schema() {
                    validate_at(member, additional, &format!("{path}[{key}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    validate_at(item, schema, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_one(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let at = child(path, key);
        match map.get(key) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(at, "", "must not be empty"));
            }
            Some(Value::String(text)) if key == "kind" => errors.extend(check_kind(&at, text)),
            Some(Value::String(text)) => errors.extend(check_api_version(&at, text)),
            Some(other) => errors.push(FieldError::invalid(at, other.clone(), "must be a string")),
        }
    }
    if let Some(Value::Object(metadata)) = map.get("metadata") {
        errors.extend(super::embedded_meta::validate(metadata, &child(path, "metadata")));
    }
}

fn check_kind(at: &str, kind: &str) -> Option<FieldError> {
    let problems = aplomb_apimachinery::validation::custom::dns_1035_label(&kind.to_lowercase());
    let detail = format!(
        "may have mixed case, but should otherwise match: {}",
        problems.join(",")
    );
    (!problems.is_empty()).then(|| FieldError::invalid(at, kind, detail))
}

fn check_api_version(at: &str, version: &str) -> Option<FieldError> {
    let detail = format!("unexpected GroupVersion string: {version}");
    (version.matches('/').count() > 1).then(|| FieldError::invalid(at, version, detail))
}

fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
