//! What is wrong with the resources a container asks for.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::check;
use super::super::quantity::Quantity;
use super::super::value::{at, members};

/// Requests and limits.
pub(crate) fn requirements(resources: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, amount) in members(resources, &["limits"]) {
        errors.extend(one(key, amount, &format!("{field}.limits[{key}]")));
    }
    for (key, amount) in members(resources, &["requests"]) {
        errors.extend(one(key, amount, &format!("{field}.requests[{key}]")));
        let limit = at(resources, &["limits", key]);
        let (Some(asked), Some(allowed)) = (parse(amount), parse(limit)) else {
            if !overcommits(key) && limit.is_null() {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(format!("{field}.limits"), why));
            }
            continue;
        };
        let why = if asked != allowed && !overcommits(key) {
            format!("must be equal to {key} limit of {allowed}")
        } else if asked > allowed {
            format!("must be less than or equal to {key} limit of {allowed}")
        } else {
            continue;
        };
        errors.push(FieldError::invalid(format!("{field}.requests"), asked.to_string(), why));
    }
    errors
}

fn parse(amount: &Value) -> Option<Quantity> {
    Quantity::parse(amount.as_str()?).ok()
}

/// Resources of Kubernetes itself can be asked for beyond what there is.
fn overcommits(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn one(name: &str, amount: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = validate_name(name, field);
    if let Some(quantity) = parse(amount) {
        let shown = quantity.to_string();
        if quantity.is_negative() {
            errors.push(FieldError::invalid(
                field,
                shown.as_str(),
                "must be greater than or equal to 0",
            ));
        }
        if !is_native(name) && !quantity.is_whole() {
            errors.push(FieldError::invalid(field, shown, "must be an integer"));
        }
    }
    errors
}

/// The name of a resource a container may ask for.
pub(crate) fn validate_name(name: &str, field: &str) -> Vec<FieldError> {
    let mut errors = check::invalid(field, name, validation::label_key(name));
    if !errors.is_empty() && name.contains('/') {
        return errors;
    }
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        if errors.is_empty() {
            errors.push(FieldError::invalid(
                field,
                name,
                "must be a standard resource type or fully qualified",
            ));
        }
        errors.push(FieldError::invalid(
            field,
            name,
            "must be a standard resource for containers",
        ));
    }
    errors
}
