//! Defaults of a CustomResourceDefinition, and what its writers may not set.

use serde_json::{Value, json};

use super::{is_true, storage_version, text, versions};

/// Fills in names and the conversion strategy.
pub(super) fn default(crd: &mut Value) {
    let kind = crd
        .pointer("/spec/names/kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if let Some(Value::Object(names)) = crd.pointer_mut("/spec/names") {
        let missing = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().is_empty();
        if missing(names.get("singular")) && !kind.is_empty() {
            names.insert("singular".into(), kind.to_lowercase().into());
        }
        if missing(names.get("listKind")) && !kind.is_empty() {
            names.insert("listKind".into(), format!("{kind}List").into());
        }
    }
    if let Some(Value::Object(spec)) = crd.get_mut("spec") {
        spec.entry("conversion")
            .or_insert_with(|| json!({ "strategy": "None" }));
    }
    default_webhook_port(crd);
    let stored = crd.pointer("/status/storedVersions").and_then(Value::as_array);
    if stored.is_none_or(Vec::is_empty) {
        remember_storage_version(crd);
    }
}

fn default_webhook_port(crd: &mut Value) {
    if let Some(Value::Object(service)) = crd.pointer_mut("/spec/conversion/webhook/clientConfig/service") {
        service.entry("port").or_insert_with(|| 443.into());
    }
}

/// An empty status with the storage version.
pub(super) fn reset_status(crd: &mut Value) {
    let empty = json!({ "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": null });
    crd["status"] = empty;
    remember_storage_version(crd);
}

/// Every version objects were ever stored as is listed until it is taken off by hand.
pub(super) fn remember_storage_version(crd: &mut Value) {
    let version = storage_version(crd).to_owned();
    if !versions(crd).any(|v| is_true(v, "storage") && text(v, "name") == version) {
        return;
    }
    let Some(Value::Object(status)) = crd.get_mut("status") else {
        crd["status"] = json!({ "storedVersions": [version] });
        return;
    };
    match status.get_mut("storedVersions") {
        Some(Value::Array(stored)) if stored.iter().any(|v| *v == *version) => {}
        Some(Value::Array(stored)) => stored.push(version.into()),
        _ => {
            status.insert("storedVersions".into(), json!([version]));
        }
    }
}
