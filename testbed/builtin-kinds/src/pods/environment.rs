//! What is wrong with the environment of a container.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::check;
use super::super::value::{at, has, list, text};

const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Variables.
pub(super) fn env(container: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, variable) in list(container, &["env"]).iter().enumerate() {
        let field = format!("{field}[{index}]");
        match text(variable, &["name"]) {
            "" => errors.push(FieldError::required(format!("{field}.name"), "")),
            name => errors.extend(check::invalid(
                &format!("{field}.name"),
                name,
                validation::variable(name),
            )),
        }
        if has(variable, &["valueFrom"]) {
            errors.extend(value_from(variable, &format!("{field}.valueFrom")));
        }
    }
    errors
}

fn value_from(variable: &Value, field: &str) -> Vec<FieldError> {
    let source = at(variable, &["valueFrom"]);
    let kinds = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| has(source, &[kind])).collect();
    let mut errors = Vec::new();
    for kind in &given {
        let (reference, field) = (at(source, &[kind]), format!("{field}.{kind}"));
        errors.extend(match *kind {
            "fieldRef" => field_ref(reference, &field),
            "resourceFieldRef" => resource_ref(reference, &field),
            "configMapKeyRef" | "secretKeyRef" => key_ref(reference, &field),
            _ => Vec::new(),
        });
    }
    let why = match given.len() {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if !text(variable, &["value"]).is_empty() => "may not be specified when `value` is not empty",
        1 => return errors,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(field, "", why));
    errors
}

fn field_ref(reference: &Value, field: &str) -> Vec<FieldError> {
    let path_field = format!("{field}.fieldPath");
    let path = text(reference, &["fieldPath"]);
    if path.is_empty() {
        return vec![FieldError::required(path_field, "")];
    }
    let subscripted = path.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match subscripted {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            check::invalid(field, &key, validation::label_key(&key))
        }
        Some(("metadata.labels", key)) => check::invalid(field, key, validation::label_key(key)),
        Some((path, _)) => vec![unconvertible(&path_field, path, text(reference, &["fieldPath"]))],
        None if FIELDS.contains(&path) => Vec::new(),
        None if matches!(path, "metadata.labels" | "metadata.annotations") => {
            vec![FieldError::not_supported(path_field, path, &FIELDS)]
        }
        None => vec![unconvertible(&path_field, path, path)],
    }
}

fn unconvertible(field: &str, label: &str, path: &str) -> FieldError {
    let why = format!("error converting fieldPath: field label not supported: {label}");
    FieldError::invalid(field, path, why)
}

fn resource_ref(reference: &Value, field: &str) -> Vec<FieldError> {
    let field = format!("{field}.resource");
    match text(reference, &["resource"]) {
        "" => vec![FieldError::required(field, "")],
        name if name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-") => Vec::new(),
        name => check::one_of(&field, name, &RESOURCES),
    }
}

fn key_ref(reference: &Value, field: &str) -> Vec<FieldError> {
    let (name, key) = (text(reference, &["name"]), text(reference, &["key"]));
    let mut errors = check::invalid(&format!("{field}.name"), name, validation::dns_subdomain(name, false));
    match key {
        "" => errors.push(FieldError::required(format!("{field}.key"), "")),
        key => errors.extend(check::invalid(
            &format!("{field}.key"),
            key,
            validation::config_map_key(key),
        )),
    }
    errors
}

/// Whole ConfigMaps and Secrets.
pub(super) fn env_from(container: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, source) in list(container, &["envFrom"]).iter().enumerate() {
        let item = format!("{field}[{index}]");
        let prefix = text(source, &["prefix"]);
        if !prefix.is_empty() {
            errors.extend(check::invalid(
                &format!("{item}.prefix"),
                prefix,
                validation::variable(prefix),
            ));
        }
        let kinds = ["configMapRef", "secretRef"];
        let given: Vec<&str> = kinds.into_iter().filter(|kind| has(source, &[kind])).collect();
        for kind in &given {
            let field = format!("{item}.{kind}.name");
            match text(source, &[kind, "name"]) {
                "" => errors.push(FieldError::required(field, "")),
                name => errors.extend(check::invalid(&field, name, validation::dns_subdomain(name, true))),
            }
        }
        let why = match given.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(field, "", why));
    }
    errors
}
