//! Validation of a CustomResourceDefinition.
//!
//! The server keeps what all versions share once, above the versions, and its messages say so: a
//! schema common to all versions is `spec.validation`, not `spec.versions[0].schema`.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::validation::custom::dns_1035_label;
use serde_json::{Map, Value};

use super::schema_rules::{self, ParentSchema};
use super::version_parts::{validate_columns, validate_conversion, validate_deprecation, validate_selectable};
use super::{default_rules, dump, is_true, names, rule_declarations, structural_rules, text};
use crate::crd::structural::Structural;

const ROOT_MEMBERS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
const ROOT_FIELDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// What versions may have in common.
const SHARED: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

/// A definition's versions with what they share moved up.
struct Hoisted {
    versions: Vec<Value>,
    shared: Map<String, Value>,
}

impl Hoisted {
    fn of(spec: &Value) -> Self {
        let mut versions = spec
            .get("versions")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut shared = Map::new();
        for key in SHARED {
            let first = versions.first().and_then(|v| v.get(key)).cloned();
            if versions.iter().all(|v| v.get(key) == first.as_ref()) {
                shared.extend(first.map(|value| (key.to_owned(), value)));
                for version in versions.iter_mut().filter_map(Value::as_object_mut) {
                    version.remove(key);
                }
            }
        }
        Self { versions, shared }
    }

    fn has_status(&self, version: Option<&Value>) -> bool {
        let shared = self.shared.get("subresources");
        let own = |v: &Value| v.pointer("/subresources/status").is_some();
        shared.is_some_and(|s| s.get("status").is_some()) || version.map_or_else(|| self.versions.iter().any(own), own)
    }
}

/// Everything wrong with a definition but its metadata.
pub(super) fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &crd["spec"];
    let hoisted = Hoisted::of(spec);
    let mut errors: Vec<FieldError> = names::validate_group(text(spec, "group")).into_iter().collect();
    errors.extend(one_of("spec.scope", text(spec, "scope"), &["Cluster", "Namespaced"]));
    errors.extend(missing_schemas(&hoisted));
    let preserves = is_true(spec, "preserveUnknownFields");
    let preserving = |why: &str| FieldError::invalid("spec.preserveUnknownFields", true, why);
    if preserves && super::versions(crd).any(has_defaults) {
        let why = "must be false in order to use defaults in the schema";
        errors.push(preserving(why));
    }
    for (index, version) in hoisted.versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        errors.extend(validate_version(version, &at, &hoisted));
    }
    errors.extend(validate_version_set(&hoisted.versions));
    errors.extend(names::validate_required(&spec["names"]));
    errors.extend(names::validate(&spec["names"], "spec.names"));
    errors.extend(validate_shared(&hoisted));
    errors.extend(validate_conversion(spec));
    errors.extend(old.map_or_else(Vec::new, |old| validate_immutable(crd, old)));
    let accepted = &crd["status"]["acceptedNames"];
    errors.extend(names::validate(accepted, "status.acceptedNames"));
    errors.extend(validate_stored_versions(crd));
    errors.extend(names::validate_approval(crd, old));
    if preserves {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(preserving(why));
    }
    errors
}

fn has_defaults(version: &Value) -> bool {
    fn any(schema: &Value) -> bool {
        schema.get("default").is_some() || structural_rules::children(schema).iter().any(|(_, child)| any(child))
    }
    version.pointer("/schema/openAPIV3Schema").is_some_and(any)
}

/// Everything wrong with a status written on its own.
pub(super) fn validate_status(crd: &Value) -> Vec<FieldError> {
    names::validate(&crd["status"]["acceptedNames"], "status.acceptedNames")
}

pub(super) fn one_of(path: &str, value: &str, accepted: &[&str]) -> Option<FieldError> {
    match value {
        "" => Some(FieldError::required(path, "")),
        value if accepted.contains(&value) => None,
        value => Some(FieldError::not_supported(path, value, accepted)),
    }
}

fn missing_schemas(hoisted: &Hoisted) -> Vec<FieldError> {
    let absent = |holder: Option<&Value>| holder.and_then(|h| h.get("openAPIV3Schema")).is_none();
    if !absent(hoisted.shared.get("schema")) {
        return Vec::new();
    }
    let versions = hoisted
        .versions
        .iter()
        .enumerate()
        .filter(|(_, version)| absent(version.get("schema")));
    let at = |index: usize| format!("spec.versions[{index}].schema.openAPIV3Schema");
    versions.map(|(index, _)| FieldError::required(at(index), "")).collect()
}

fn validate_version(version: &Value, path: &str, hoisted: &Hoisted) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(version, "name");
    let problems = dns_1035_label(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(format!("{path}.name"), name, problems.join(",")));
    }
    errors.extend(validate_deprecation(version, path));
    if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
        let status = hoisted.has_status(Some(version));
        errors.extend(validate_schema(
            schema,
            &format!("{path}.schema.openAPIV3Schema"),
            status,
        ));
    }
    errors.extend(validate_columns(
        version.get("additionalPrinterColumns"),
        &format!("{path}.additionalPrinterColumns"),
    ));
    let schema = version.get("schema").or_else(|| hoisted.shared.get("schema"));
    errors.extend(validate_selectable(
        version.get("selectableFields"),
        schema,
        &format!("{path}.selectableFields"),
    ));
    errors
}

fn validate_shared(hoisted: &Hoisted) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let shared = |key: &str| hoisted.shared.get(key);
    if let Some(schema) = shared("schema").and_then(|s| s.get("openAPIV3Schema")) {
        errors.extend(validate_schema(
            schema,
            "spec.validation.openAPIV3Schema",
            hoisted.has_status(None),
        ));
    }
    errors.extend(validate_columns(
        shared("additionalPrinterColumns"),
        "spec.additionalPrinterColumns",
    ));
    errors.extend(validate_selectable(
        shared("selectableFields"),
        shared("schema"),
        "spec.selectableFields",
    ));
    errors
}

fn validate_schema(schema: &Value, path: &str, has_status: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(has_status.then(|| validate_root(schema, path)).flatten());
    if is_true(schema, "nullable") {
        errors.push(FieldError::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let unsupported = structural_rules::unsupported(schema);
    let structural = Structural::parse(schema);
    let mut sound = false;
    if unsupported.is_none() && !preserves_nothing(schema) {
        let mut found = structural_rules::validate(schema, path);
        if found.is_empty() {
            found = default_rules::validate_defaults(&structural, path);
        }
        sound = found.is_empty();
        errors.extend(found);
    }
    let found = schema_rules::validate(schema, path, &ParentSchema::root());
    let broken = if sound {
        rule_declarations::validate_expressions(schema, &structural, path, &found)
    } else {
        Vec::new()
    };
    errors.extend(found);
    errors.extend(broken);
    if let (true, Some(name)) = (errors.is_empty(), unsupported) {
        errors.push(FieldError::invalid(
            path,
            "",
            format!("OpenAPIV3Schema '{name}' is not supported"),
        ));
    }
    errors
}

/// `x-kubernetes-preserve-unknown-fields: false` anywhere keeps the structural checks from running.
fn preserves_nothing(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false))
        || structural_rules::children(schema)
            .iter()
            .any(|(_, child)| preserves_nothing(child))
}

/// With a status subresource the root may only have what is not lost when status is cut out.
fn validate_root(schema: &Value, path: &str) -> Option<FieldError> {
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(FieldError::invalid(format!("{path}.type"), kind, detail));
    }
    let members = schema.as_object()?;
    if members.keys().all(|key| ROOT_MEMBERS.contains(&key.as_str())) {
        return None;
    }
    let why =
        format!("only {ROOT_FIELDS} fields are allowed at the root of the schema if the status subresource is enabled");
    Some(printed(path, &dump::schema(schema), &why))
}

/// An invalid value that is printed as one of the server's internal types.
pub(super) fn printed(path: &str, value: &str, why: &str) -> FieldError {
    let detail = format!("{value}: {why}");
    FieldError {
        kind: ErrorType::Invalid,
        field: path.to_owned(),
        value: None,
        detail,
    }
}

fn validate_version_set(versions: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let unique: BTreeSet<&str> = versions.iter().map(|v| text(v, "name")).collect();
    if unique.len() < versions.len() {
        errors.push(printed(
            "spec.versions",
            &dump::versions(versions),
            "must contain unique version names",
        ));
    }
    if versions.iter().filter(|v| is_true(v, "storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(printed("spec.versions", &dump::versions(versions), why));
    }
    // The first version's name is also kept as `spec.version`, which clients no longer see.
    let first = versions.first().map_or("", |v| text(v, "name"));
    let problems = dns_1035_label(first);
    if !first.is_empty() && !problems.is_empty() {
        errors.push(FieldError::invalid("spec.version", first, problems.join(",")));
    }
    errors
}

fn validate_immutable(crd: &Value, old: &Value) -> Vec<FieldError> {
    let always = [
        ("/spec/group", "spec.group"),
        ("/spec/names/plural", "spec.names.plural"),
    ];
    let established = [("/spec/scope", "spec.scope"), ("/spec/names/kind", "spec.names.kind")];
    let when_served = super::is_true_condition(old, "Established").then_some(established);
    let paths = when_served.into_iter().flatten().chain(always);
    let changed = paths.filter(|(pointer, _)| crd.pointer(pointer) != old.pointer(pointer));
    let error = |(pointer, path): (&str, &str)| {
        let value = crd.pointer(pointer).cloned().unwrap_or_else(|| "".into());
        FieldError::invalid(path, value, "field is immutable")
    };
    changed.map(error).collect()
}

fn validate_stored_versions(crd: &Value) -> Vec<FieldError> {
    let at = "status.storedVersions";
    let stored = crd["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    if stored.is_empty() {
        return vec![FieldError::new(
            ErrorType::Invalid,
            at,
            Value::Null,
            "must have at least one stored version",
        )];
    }
    let mut errors = Vec::new();
    let declared: Vec<&Value> = super::versions(crd).collect();
    let names: Vec<&str> = declared.iter().map(|v| text(v, "name")).collect();
    for version in declared.iter().filter(|v| is_true(v, "storage")) {
        let name = text(version, "name");
        if !stored.iter().any(|s| s == name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(at, stored.clone(), detail));
        }
    }
    for (index, version) in stored.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if !names.contains(&name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{at}[{index}]"), name, detail));
        }
    }
    errors
}
