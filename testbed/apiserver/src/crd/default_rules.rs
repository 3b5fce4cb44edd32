//! Defaults in a schema must themselves be valid under it.

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use crate::crd::rules::Rules;
use crate::crd::structural::Structural;
use crate::crd::{embedded, pruning, validate};

/// Everything wrong with the defaults of a schema that stands at `path`.
pub(super) fn validate_defaults(schema: &Structural, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, path, true, &mut errors);
    errors
}

fn walk(schema: &Structural, path: &str, is_resource: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        errors.extend(check(default, schema, &format!("{path}.default")));
    }
    if let Some(items) = schema.items.as_deref() {
        walk(
            items,
            &format!("{path}.items"),
            items.extensions.embedded_resource,
            errors,
        );
    }
    for (name, property) in &schema.properties {
        // What metadata may contain is fixed; defaults there are refused or judged on their own.
        if is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
            continue;
        }
        let is_resource = property.extensions.embedded_resource;
        walk(property, &format!("{path}.properties[{name}]"), is_resource, errors);
    }
}

fn check(default: &Value, schema: &Structural, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut pruned = default.clone();
    pruning::prune_value(&mut pruned, schema);
    if pruned != *default {
        errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
    }
    match embedded::coerce(&mut pruned, schema) {
        Err(error) => {
            errors.push(FieldError {
                field: format!("{at}.{}", error.field),
                ..error
            });
            return errors;
        }
        Ok(_) => errors.extend(prefixed(embedded::validate(default, schema), at)),
    }
    let invalid = validate::validate(default, schema, at);
    if invalid.is_empty() {
        let broken = Rules::compile(schema, false)
            .validate(schema, default, Some(default), None)
            .errors;
        errors.extend(prefixed(broken, at));
    }
    errors.extend(invalid);
    errors
}

fn prefixed(errors: Vec<FieldError>, at: &str) -> impl Iterator<Item = FieldError> {
    errors.into_iter().map(move |error| {
        let field = match error.field.as_str() {
            "" | "<nil>" => at.to_owned(),
            field if field.starts_with('[') => format!("{at}{field}"),
            field => format!("{at}.{field}"),
        };
        FieldError { field, ..error }
    })
}
