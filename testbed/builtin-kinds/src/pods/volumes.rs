//! What is wrong with the volumes of a pod and where containers mount them.

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::check;
use super::super::require;
use super::super::value::{at, has, list, number, text};

/// Volume types in the order in which the server looks for them.
const TYPES: [&str; 12] = [
    "emptyDir",
    "hostPath",
    "secret",
    "nfs",
    "iscsi",
    "persistentVolumeClaim",
    "downwardAPI",
    "configMap",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

/// All volumes.
pub(super) fn all(spec: &Value, field: &str) -> Vec<FieldError> {
    let volumes = list(spec, &["volumes"]);
    let mut errors = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        errors.extend(validate_volume(volume, &volumes[..index], &format!("{field}[{index}]")));
    }
    errors
}

fn validate_volume(volume: &Value, earlier: &[Value], field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut given = TYPES.iter().filter(|kind| has(volume, &[kind]));
    if let Some(first) = given.next() {
        errors.extend(source(at(volume, &[first]), first, &format!("{field}.{first}")));
    }
    errors.extend(given.map(|kind| {
        let kind = if *kind == "downwardAPI" { "downwarAPI" } else { kind };
        FieldError::forbidden(format!("{field}.{kind}"), "may not specify more than 1 volume type")
    }));
    let (name, name_field) = (text(volume, &["name"]), format!("{field}.name"));
    match name {
        "" => errors.push(FieldError::required(&name_field, "")),
        name => errors.extend(check::invalid(&name_field, name, validation::dns_label(name, false))),
    }
    let valid = |volume: &&Value| !text(volume, &["name"]).is_empty();
    if earlier.iter().filter(valid).any(|other| text(other, &["name"]) == name) {
        errors.push(FieldError::duplicate(name_field, name));
    }
    errors
}

fn source(source: &Value, kind: &str, field: &str) -> Vec<FieldError> {
    let mut errors = match kind {
        "secret" => require::given(source, "secretName", field, ""),
        "configMap" => require::given(source, "name", field, ""),
        "persistentVolumeClaim" => require::given(source, "claimName", field, ""),
        "hostPath" => host_path(source, field),
        _ => Vec::new(),
    };
    if matches!(kind, "secret" | "configMap" | "projected" | "downwardAPI") {
        errors.extend(mode(source, "defaultMode", field));
    }
    if matches!(kind, "secret" | "configMap") {
        errors.extend(require::each(source, "items", field, key_to_path));
    }
    errors
}

fn mode(source: &Value, key: &str, field: &str) -> Vec<FieldError> {
    match number(source, &[key]) {
        Some(mode) if !(0..=0o777).contains(&mode) => {
            let why = "must be a number between 0 and 0777 (octal), both inclusive";
            vec![FieldError::invalid(format!("{field}.{key}"), mode, why)]
        }
        _ => Vec::new(),
    }
}

fn key_to_path(item: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = require::given(item, "key", field, "");
    errors.extend(require::given(item, "path", field, ""));
    let (path, path_field) = (text(item, &["path"]), format!("{field}.path"));
    errors.extend(descending(path, &path_field));
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid(path_field, path, "must not start with '..'"));
    }
    errors.extend(mode(item, "mode", field));
    errors
}

fn host_path(source: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = require::given(source, "path", field, "");
    if errors.is_empty() {
        errors.extend(no_backsteps(text(source, &["path"]), &format!("{field}.path")));
        let allowed = &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ];
        errors.extend(check::one_of(
            &format!("{field}.type"),
            text(source, &["type"]),
            allowed,
        ));
    }
    errors
}

fn descending(path: &str, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if path.starts_with('/') {
        errors.push(FieldError::invalid(field, path, "must be a relative path"));
    }
    errors.extend(no_backsteps(path, field));
    errors
}

fn no_backsteps(path: &str, field: &str) -> Option<FieldError> {
    path.split('/')
        .any(|item| item == "..")
        .then(|| FieldError::invalid(field, path, "must not contain '..'"))
}

/// Whether a volume is there and nothing is wrong with it.
fn has_volume(spec: &Value, name: &str) -> bool {
    let volumes = list(spec, &["volumes"]);
    volumes.iter().enumerate().any(|(index, volume)| {
        text(volume, &["name"]) == name && validate_volume(volume, &volumes[..index], "").is_empty()
    })
}

/// Where a container mounts volumes.
pub(super) fn mounts(container: &Value, spec: &Value, field: &str) -> Vec<FieldError> {
    let mounts = list(container, &["volumeMounts"]);
    let mut errors = Vec::new();
    for (index, mount) in mounts.iter().enumerate() {
        let item = format!("{field}[{index}]");
        let name = text(mount, &["name"]);
        errors.extend(require::given(mount, "name", &item, ""));
        if !has_volume(spec, name) {
            let (kind, field) = (ErrorType::NotFound, format!("{item}.name"));
            errors.push(FieldError::new(kind, field, name.into(), ""));
        }
        errors.extend(require::given(mount, "mountPath", &item, ""));
        let path = text(mount, &["mountPath"]);
        if mounts[..index]
            .iter()
            .any(|earlier| text(earlier, &["mountPath"]) == path)
        {
            errors.push(FieldError::invalid(format!("{item}.mountPath"), path, "must be unique"));
        }
        for key in ["subPath", "subPathExpr"] {
            let sub = text(mount, &[key]);
            if !sub.is_empty() {
                // The server leaves the index out here.
                errors.extend(descending(sub, &format!("{field}.{key}")));
            }
        }
    }
    errors
}
