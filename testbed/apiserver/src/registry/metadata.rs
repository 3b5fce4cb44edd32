//! ObjectMeta: what the server fills in, what it refuses and in which words.

use serde_json::{Map, Value};

use aplomb_apimachinery::field::{ErrorType, FieldError, go_quote};
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::validation;

/// All annotations of an object together may not be larger than this.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const MANAGER_LIMIT: usize = 128;
const SUBRESOURCE_LIMIT: usize = 256;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Brings metadata into the form a round trip through the server's types gives it: no nulls, no
/// empty members.
pub(super) fn normalize(object: &mut Value) {
    if !object.is_object() {
        return;
    }
    let meta = object::metadata_mut(object);
    for member in ["labels", "annotations"] {
        if let Some(Value::Object(map)) = meta.get_mut(member) {
            for value in map.values_mut().filter(|value| value.is_null()) {
                *value = "".into();
            }
        }
    }
    meta.retain(|member, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Number(number) => member != "generation" || number.as_i64() != Some(0),
        Value::Bool(_) => true,
    });
}

/// Drops what only the server may say about a new object.
pub(super) fn wipe_system_fields(object: &mut Value) {
    let meta = object::metadata_mut(object);
    for member in [
        "creationTimestamp",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        meta.remove(member);
    }
}

/// Folds owner references that occur twice; the UIDs that did.
pub(super) fn dedup_owner_references(object: &mut Value) -> Vec<String> {
    let mut duplicates = Vec::new();
    let meta = object::metadata_mut(object);
    if let Some(Value::Array(references)) = meta.get_mut("ownerReferences") {
        let mut kept: Vec<Value> = Vec::with_capacity(references.len());
        for reference in references.drain(..) {
            if kept.contains(&reference) {
                duplicates.push(object::text(&reference, "uid").to_owned());
            } else {
                kept.push(reference);
            }
        }
        *references = kept;
    }
    duplicates
}

type NameRule<'a> = &'a dyn Fn(&str, bool) -> Vec<String>;

/// What is wrong with the metadata of a new object, by the kind's own rule for names.
pub(super) fn validate_create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    validate(resource, object, &kind_rule(resource))
}

/// The part of it in which kinds differ.
pub(super) fn validate_names(resource: &Resource, object: &Value) -> Vec<FieldError> {
    name_errors(object, &kind_rule(resource))
}

fn kind_rule(resource: &Resource) -> impl Fn(&str, bool) -> Vec<String> {
    |name, prefix| resource.strategy.validate_name(name, prefix)
}

/// The generic code's view of any object's metadata.
pub(super) fn validate_any(resource: &Resource, object: &Value) -> Vec<FieldError> {
    validate(resource, object, &validation::path_segment)
}

fn validate(resource: &Resource, object: &Value, name_rule: NameRule<'_>) -> Vec<FieldError> {
    let mut errors = name_errors(object, name_rule);
    errors.extend(namespace_errors(resource, object::namespace(object)));
    let generation = object::generation(object);
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        let field = "metadata.generation";
        errors.push(FieldError::invalid(field, generation, detail));
    }
    let Some(meta) = object::metadata(object) else {
        return errors;
    };
    errors.extend(label_errors(meta));
    errors.extend(annotation_errors(meta));
    errors.extend(owner_errors(meta));
    errors.extend(finalizer_errors(object));
    errors.extend(managed_fields_errors(meta));
    errors
}

fn name_errors(object: &Value, name_rule: NameRule<'_>) -> Vec<FieldError> {
    let judge = |member: &str, name: &str, prefix: bool| -> Vec<FieldError> {
        let wrong = name_rule(name, prefix);
        wrong
            .iter()
            .map(|e| FieldError::invalid(format!("metadata.{member}"), name, e))
            .collect()
    };
    let mut errors = Vec::new();
    let generate_name = object::meta_str(object, "generateName");
    if !generate_name.is_empty() {
        errors.extend(judge("generateName", generate_name, true));
    }
    match object::name(object) {
        "" => {
            let detail = "name or generateName is required";
            errors.push(FieldError::required("metadata.name", detail));
        }
        name => errors.extend(judge("name", name, false)),
    }
    errors
}

fn namespace_errors(resource: &Resource, namespace: &str) -> Vec<FieldError> {
    let field = "metadata.namespace";
    match (resource.namespaced, namespace.is_empty()) {
        (true, true) => vec![FieldError::required(field, "")],
        (true, false) => {
            let wrong = validation::metadata::dns_label(namespace);
            wrong.iter().map(|e| FieldError::invalid(field, namespace, e)).collect()
        }
        (false, true) => Vec::new(),
        (false, false) => vec![FieldError::forbidden(field, "not allowed on this type")],
    }
}

fn label_errors(meta: &Map<String, Value>) -> Vec<FieldError> {
    let Some(labels) = meta.get("labels").and_then(Value::as_object) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for (key, value) in labels {
        let field = "metadata.labels";
        let value = value.as_str().unwrap_or_default();
        errors.extend(
            validation::metadata::label_key(key)
                .iter()
                .map(|e| FieldError::invalid(field, key.as_str(), e)),
        );
        errors.extend(
            validation::metadata::label_value(value)
                .iter()
                .map(|e| FieldError::invalid(field, value, e)),
        );
    }
    errors
}

fn annotation_errors(meta: &Map<String, Value>) -> Vec<FieldError> {
    let Some(annotations) = meta.get("annotations").and_then(Value::as_object) else {
        return Vec::new();
    };
    let field = "metadata.annotations";
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations {
        let wrong = validation::metadata::label_key(&key.to_lowercase());
        errors.extend(wrong.iter().map(|e| FieldError::invalid(field, key.as_str(), e)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(field, ANNOTATIONS_LIMIT));
    }
    errors
}

fn owner_errors(meta: &Map<String, Value>) -> Vec<FieldError> {
    let Some(references) = meta.get("ownerReferences").and_then(Value::as_array) else {
        return Vec::new();
    };
    let field = "metadata.ownerReferences";
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for reference in references {
        errors.extend(owner_reference_errors(reference));
        if reference.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let this = format!(
            "{}/{}",
            object::text(reference, "kind"),
            object::text(reference, "name")
        );
        if let Some(first) = &controller {
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            );
            errors.push(shown(field, &show_references(references), &detail));
        } else {
            controller = Some(this);
        }
    }
    errors
}

fn owner_reference_errors(reference: &Value) -> Vec<FieldError> {
    let field = "metadata.ownerReferences";
    let mut errors = Vec::new();
    let api_version = object::text(reference, "apiVersion");
    // What has more than one slash is no group and version to the server, and so no version.
    let slashes = api_version.matches('/').count();
    if api_version.is_empty() || api_version.ends_with('/') || slashes > 1 {
        let field = format!("{field}.apiVersion");
        errors.push(FieldError::invalid(field, api_version, "version must not be empty"));
    }
    for member in ["kind", "name", "uid"] {
        if object::text(reference, member).is_empty() {
            errors.push(FieldError::invalid(
                format!("{field}.{member}"),
                "",
                "must not be empty",
            ));
        }
    }
    if api_version == "v1" && object::text(reference, "kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(shown(field, &show_reference(reference), detail));
    }
    errors
}

/// `Invalid value` of something already printed.
fn shown(field: &str, printed: &str, detail: &str) -> FieldError {
    FieldError {
        kind: ErrorType::Invalid,
        field: field.to_owned(),
        value: None,
        detail: format!("{printed}: {detail}"),
    }
}

fn show_references(references: &[Value]) -> String {
    let printed: Vec<String> = references.iter().map(show_reference).collect();
    format!("[{}]", printed.join(","))
}

/// An owner reference in the order of the server's type.
fn show_reference(reference: &Value) -> String {
    let always = ["apiVersion", "kind", "name", "uid"]
        .map(|member| format!("\"{member}\":{}", Value::from(object::text(reference, member))));
    let optional = ["controller", "blockOwnerDeletion"]
        .into_iter()
        .filter_map(|member| Some(format!("\"{member}\":{}", reference.get(member)?)));
    let members: Vec<String> = always.into_iter().chain(optional).collect();
    format!("{{{}}}", members.join(","))
}

fn finalizer_errors(object: &Value) -> Vec<FieldError> {
    let field = "metadata.finalizers";
    let finalizers = object::finalizers(object);
    let mut errors: Vec<FieldError> = finalizers
        .iter()
        .flat_map(|name| {
            validation::metadata::label_key(name)
                .into_iter()
                .map(|e| FieldError::invalid(field, *name, e))
        })
        .collect();
    if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(field, finalizers, detail));
    }
    errors
}

fn managed_fields_errors(meta: &Map<String, Value>) -> Vec<FieldError> {
    let Some(entries) = meta.get("managedFields").and_then(Value::as_array) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = |member: &str| format!("metadata.managedFields[{index}].{member}");
        let operation = object::text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(field("operation"), operation, detail));
        }
        let fields_type = object::text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(
                field("fieldsType"),
                fields_type,
                "must be `FieldsV1`",
            ));
        }
        let manager = object::text(entry, "manager");
        errors.extend(manager_errors(manager, || field("manager")));
        if object::text(entry, "subresource").len() > SUBRESOURCE_LIMIT {
            errors.push(FieldError::too_long(field("subresource"), SUBRESOURCE_LIMIT));
        }
    }
    errors
}

/// What is wrong with the name of a field manager.
pub(super) fn manager_errors(manager: &str, field: impl Fn() -> String) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MANAGER_LIMIT {
        errors.push(FieldError::too_long(field(), MANAGER_LIMIT));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(FieldError::invalid(field(), manager, detail));
    }
    errors
}

/// Members that may not change, and how a message shows one that is gone.
const IMMUTABLE: [(&str, Option<&str>); 6] = [
    ("name", Some("")),
    ("namespace", Some("")),
    ("uid", Some("")),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
];

/// What may not change, and what is wrong with the rest.
pub(super) fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if object::is_terminating(old) {
        errors.extend(new_finalizer_errors(object, old));
    }
    if object::resource_version(object).is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid("metadata.resourceVersion", "", detail));
    }
    let generation = object::generation(object);
    if generation < object::generation(old) {
        let field = "metadata.generation";
        errors.push(FieldError::invalid(field, generation, "must not be decremented"));
    }
    errors.extend(IMMUTABLE.iter().filter_map(|(member, absent)| {
        let new = object::meta_value(object, member);
        (new != object::meta_value(old, member)).then(|| {
            let absent = || absent.map_or(Value::Null, Value::from);
            let shown = new.cloned().unwrap_or_else(absent);
            let field = format!("metadata.{member}");
            FieldError::new(ErrorType::Invalid, field, shown, "field is immutable")
        })
    }));
    let Some(meta) = object::metadata(object) else {
        return errors;
    };
    errors.extend(label_errors(meta));
    errors.extend(annotation_errors(meta));
    errors.extend(owner_errors(meta));
    errors.extend(managed_fields_errors(meta));
    errors
}

fn new_finalizer_errors(object: &Value, old: &Value) -> Option<FieldError> {
    let known = object::finalizers(old);
    let mut extra: Vec<&str> = object::finalizers(object);
    extra.retain(|name| !known.contains(name));
    extra.sort_unstable();
    extra.dedup();
    if extra.is_empty() {
        return None;
    }
    let quoted: Vec<String> = extra.iter().map(|name| go_quote(name)).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    Some(FieldError::forbidden("metadata.finalizers", detail))
}
