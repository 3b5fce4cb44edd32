//! Validation of an embedded object's metadata. A resource's own metadata is checked by `registry`.

use serde_json::{Map, Value};

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::validation;

/// Annotations together may not be larger than this.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// Everything wrong with `metadata`, which stands at `path`.
#[must_use]
pub(super) fn validate(metadata: &Map<String, Value>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, prefix) in [("generateName", true), ("name", false)] {
        if let Some(text) = metadata.get(key).and_then(Value::as_str) {
            let problems = validation::path_segment(text, prefix);
            errors.extend(
                problems
                    .into_iter()
                    .map(|m| FieldError::invalid(format!("{path}.{key}"), text, m)),
            );
        }
    }
    if let Some(namespace) = metadata.get("namespace").and_then(Value::as_str) {
        let problems = validation::custom::dns_label(namespace);
        let at = format!("{path}.namespace");
        errors.extend(
            problems
                .into_iter()
                .map(|m| FieldError::invalid(at.clone(), namespace, m)),
        );
    }
    errors.extend(validate_labels(metadata, &format!("{path}.labels")));
    errors.extend(validate_annotations(metadata, &format!("{path}.annotations")));
    errors.extend(validate_finalizers(metadata, &format!("{path}.finalizers")));
    errors
}

fn texts<'a>(metadata: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = metadata.get(key).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

fn validate_labels(metadata: &Map<String, Value>, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in texts(metadata, "labels") {
        errors.extend(
            validation::custom::qualified_name(key)
                .into_iter()
                .map(|m| FieldError::invalid(at, key, m)),
        );
        errors.extend(
            validation::custom::label_value(value)
                .into_iter()
                .map(|m| FieldError::invalid(at, value, m)),
        );
    }
    errors
}

fn validate_annotations(metadata: &Map<String, Value>, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in texts(metadata, "annotations") {
        size += key.len() + value.len();
        let problems = validation::custom::qualified_name(&key.to_lowercase());
        errors.extend(problems.into_iter().map(|m| FieldError::invalid(at, key, m)));
    }
    if size > MAX_ANNOTATION_BYTES {
        errors.push(FieldError::too_long(at, MAX_ANNOTATION_BYTES));
    }
    errors
}

fn validate_finalizers(metadata: &Map<String, Value>, at: &str) -> Vec<FieldError> {
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    let mut errors = Vec::new();
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
        let problems = validation::custom::qualified_name(finalizer);
        errors.extend(problems.into_iter().map(|m| FieldError::invalid(at, finalizer, m)));
        orphan |= finalizer == "orphan";
        foreground |= finalizer == "foregroundDeletion";
    }
    if orphan && foreground {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        let value = metadata.get("finalizers").cloned().unwrap_or_default();
        errors.push(FieldError::new(ErrorType::Invalid, at, value, detail));
    }
    errors
}
