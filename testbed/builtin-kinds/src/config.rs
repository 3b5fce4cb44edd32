//! ConfigMaps, Secrets and ServiceAccounts.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::json;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::print::{age, name};
use super::value::{at, default_to, has, items_mut, members, restore, set, text};

/// How many bytes the values of a ConfigMap or a Secret may have together.
const MAX_SIZE: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// How config maps behave.
pub(super) const CONFIG_MAP: KindBehavior = KindBehavior {
    validate: validate_config_map,
    validate_update: |new, old, _| immutable(new, old, &["data", "binaryData"]),
    cells: config_map_cells,
    ..KindBehavior::PLAIN
};

/// How secrets behave.
pub(super) const SECRET: KindBehavior = KindBehavior {
    default: default_secret,
    validate: validate_secret,
    validate_update: validate_secret_update,
    prepare_update: |new, old, _| {
        if text(new, &["type"]).is_empty() {
            restore(new, old, &["type"]);
        }
    },
    selectable: |secret| vec![("type".to_owned(), text(secret, &["type"]).to_owned())],
    cells: secret_cells,
    ..KindBehavior::PLAIN
};

/// How service accounts behave.
pub(super) const SERVICE_ACCOUNT: KindBehavior = KindBehavior {
    warnings: |account| mountable_secrets_warning(account, &Value::Null),
    update_warnings: mountable_secrets_warning,
    prepare_create: only_secret_names,
    prepare_update: |account, _, _| only_secret_names(account),
    ..KindBehavior::PLAIN
};

/// Said only when a write sets the annotation anew.
fn mountable_secrets_warning(account: &Value, old: &Value) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
    let set = |account: &Value| !account["metadata"]["annotations"][ANNOTATION].is_null();
    if !set(account) || set(old) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    )]
}

fn config_map_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = members(object, &["data"]).count() + members(object, &["binaryData"]).count();
    vec![name(object), count.into(), age(object, now)]
}

fn secret_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = members(object, &["data"]).count();
    vec![
        name(object),
        text(object, &["type"]).into(),
        count.into(),
        age(object, now),
    ]
}

/// A service account names its secrets; anything else in the reference is dropped.
fn only_secret_names(account: &mut Value) {
    for reference in items_mut(account, &["secrets"]) {
        let name = text(reference, &["name"]).to_owned();
        *reference = if name.is_empty() {
            json!({})
        } else {
            json!({ "name": name })
        };
    }
}

/// `stringData` is written into `data`, and a secret of no type is opaque.
fn default_secret(secret: &mut Value) {
    let plain = at(secret, &["stringData"]).clone();
    set(secret, &["stringData"], Value::Null);
    for (key, value) in members(&plain, &[]) {
        let encoded = STANDARD.encode(value.as_str().unwrap_or(""));
        set(secret, &["data", key], encoded.into());
    }
    default_to(secret, "type", "Opaque");
}

fn validate_config_map(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in members(object, &["data"]) {
        errors.extend(bad_key("data", key));
        if has(object, &["binaryData", key]) {
            let field = format!("data[{key}]");
            errors.push(FieldError::invalid(
                field,
                key.as_str(),
                "duplicate of key present in binaryData",
            ));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in members(object, &["binaryData"]) {
        errors.extend(bad_key("binaryData", key));
        size += decoded_len(value);
    }
    if size > MAX_SIZE {
        // The server prints the path of the whole object so.
        errors.push(FieldError::too_long("[]", MAX_SIZE));
    }
    errors
}

fn validate_secret(object: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = members(object, &["data"])
        .flat_map(|(key, _)| bad_key("data", key))
        .collect();
    let size: usize = members(object, &["data"]).map(|(_, value)| decoded_len(value)).sum();
    if size > MAX_SIZE {
        errors.push(FieldError::too_long("data", MAX_SIZE));
    }
    errors.extend(validate_secret_type(object));
    errors
}

fn validate_secret_type(object: &Value) -> Vec<FieldError> {
    let has_key = |key: &&str| has(object, &["data", key]);
    let required = |key: &str| FieldError::required(format!("data[{key}]"), "");
    let all_of = |keys: &[&str]| {
        keys.iter()
            .filter(|key| !has_key(key))
            .map(|key| required(key))
            .collect()
    };
    match text(object, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            match text(object, &["metadata", "annotations", key]) {
                "" => vec![FieldError::required(format!("metadata.annotations[{key}]"), "")],
                _ => Vec::new(),
            }
        }
        "kubernetes.io/dockercfg" => well_formed(object, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => well_formed(object, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !["username", "password"].iter().any(has_key) => {
            all_of(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" if text(object, &["data", "ssh-privatekey"]).is_empty() => {
            vec![required("ssh-privatekey")]
        }
        "kubernetes.io/tls" => all_of(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

/// A value that must be a JSON object.
fn well_formed(object: &Value, key: &str) -> Vec<FieldError> {
    let field = format!("data[{key}]");
    let Some(encoded) = at(object, &["data", key]).as_str() else {
        return vec![FieldError::required(field, "")];
    };
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let why = match json::parse(&bytes).map(|document| document.value) {
        Ok(Value::Object(_) | Value::Null) => return Vec::new(),
        Ok(other) => {
            format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                super::decode::describe(&other)
            )
        }
        Err(why) => why,
    };
    vec![FieldError::invalid(field, "<secret contents redacted>", why)]
}

fn validate_secret_update(new: &Value, old: &Value, _part: Part) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if at(new, &["type"]) != at(old, &["type"]) {
        errors.push(FieldError::invalid("type", text(new, &["type"]), "field is immutable"));
    }
    errors.extend(immutable(new, old, &["data"]));
    errors
}

/// An object marked immutable stays so, and so do its values.
fn immutable(new: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    if at(old, &["immutable"]) != true {
        return Vec::new();
    }
    let unmarked = at(new, &["immutable"]) != true;
    let changed = fields.iter().filter(|field| at(new, &[field]) != at(old, &[field]));
    unmarked
        .then_some("immutable")
        .into_iter()
        .chain(changed.copied())
        .map(|field| FieldError::forbidden(field, IMMUTABLE))
        .collect()
}

fn bad_key(map: &str, key: &str) -> Vec<FieldError> {
    let field = format!("{map}[{key}]");
    validation::config_map_key(key)
        .into_iter()
        .map(|why| FieldError::invalid(&field, key, why))
        .collect()
}

fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or("");
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}
