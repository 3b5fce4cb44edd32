//! Checks that every write makes before or beside the kind's own.

use aplomb_apimachinery::field::{ErrorType, FieldError, go_quote};
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::Value;

use super::metadata;
use crate::call::{Call, PatchType};

/// Checks `fieldManager` and `force`. `kind` is the options type the server names.
pub(super) fn validate(call: &Call, kind: &str) -> Result<(), ApiError> {
    let manager = call.options.field_manager.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    match call.patch_type {
        Some(PatchType::Apply) if manager.is_empty() => {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        Some(PatchType::Json | PatchType::Merge | PatchType::StrategicMerge) if call.options.force.is_some() => {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        _ => {}
    }
    errors.extend(metadata::manager_errors(manager, || "fieldManager".to_owned()));
    invalid_options(kind, &errors)
}

/// 422 about the options of a request, if there is anything to say.
pub(super) fn invalid_options(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&GroupResource::new("meta.k8s.io", kind), "", errors))
}

/// A custom resource may state a wrong kind up to here; the answer names what it stated.
pub(super) fn check_type_meta(resource: &Resource, object: &Value) -> Result<(), ApiError> {
    let (kind, api_version) = (object::text(object, "kind"), object::text(object, "apiVersion"));
    let mut errors = Vec::new();
    if kind != resource.kind {
        errors.push(FieldError::invalid("kind", kind, format!("must be {}", resource.kind)));
    }
    let expected = resource.api_version();
    if api_version != expected {
        errors.push(FieldError::invalid(
            "apiVersion",
            api_version,
            format!("must be {expected}"),
        ));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    Err(ApiError::invalid(
        &GroupResource::new(group, kind),
        object::name(object),
        &errors,
    ))
}

fn is_standard_finalizer(name: &str) -> bool {
    matches!(name, "kubernetes" | "orphan" | "foregroundDeletion")
}

/// Custom resources warn about finalizers without a domain that were not there before.
pub(super) fn finalizer_warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    if !resource.strategy.is_custom() {
        return Vec::new();
    }
    let known = old.map(object::finalizers).unwrap_or_default();
    let unqualified = |name: &&str| !known.contains(name) && !name.contains('/') && !is_standard_finalizer(name);
    let warn = |name: &str| {
        let path = if name.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers",
            go_quote(name)
        )
    };
    object::finalizers(object)
        .into_iter()
        .filter(unqualified)
        .map(warn)
        .collect()
}

/// Most built-in kinds refuse them.
pub(super) fn finalizer_errors(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let lenient = [
        "apiextensions.k8s.io",
        "admissionregistration.k8s.io",
        "coordination.k8s.io",
    ];
    if resource.strategy.is_custom() || lenient.contains(&resource.group.as_str()) {
        return Vec::new();
    }
    let finalizers = object::finalizers(object);
    let unqualified = |name: &str| !name.contains('/') && !is_standard_finalizer(name);
    let wrong = finalizers.iter().enumerate().filter(|(_, name)| unqualified(name));
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    wrong
        .map(|(index, name)| FieldError::invalid(format!("metadata.finalizers[{index}]"), *name, detail))
        .collect()
}

/// Rules of a custom resource are not checked on an object whose metadata is wrong in a way that
/// may mislead them; the answer says so.
pub(super) fn unchecked_rules(resource: &Resource, errors: &[FieldError]) -> Option<FieldError> {
    let blocks = |error: &FieldError| {
        matches!(
            error.kind,
            ErrorType::NotSupported
                | ErrorType::Required
                | ErrorType::TooLong
                | ErrorType::TooMany
                | ErrorType::TypeInvalid
        )
    };
    let said = errors.iter().any(|error| error.field == "<nil>");
    if said || !resource.strategy.is_custom() || !errors.iter().any(blocks) {
        return None;
    }
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    has_rules(resource.strategy.openapi()).then(|| FieldError::new(ErrorType::Invalid, "<nil>", Value::Null, detail))
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("x-kubernetes-validations") || map.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}
