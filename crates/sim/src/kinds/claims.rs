//! Persistent volume claims: enough to store and print them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::print::{age, name, or};
use super::value::{at, default_to, has, list, set, text};

const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// How claims behave.
pub(super) const CLAIM: Behaviour = Behaviour {
    default: |claim| {
        if let Some(spec) = claim.get_mut("spec") {
            default_to(spec, "volumeMode", "Filesystem");
        }
        if let Some(status) = claim.get_mut("status") {
            default_to(status, "phase", "Pending");
        }
    },
    prepare_create: |claim| {
        set(claim, &["status"], json!({ "phase": "Pending" }));
        let mut finalizers = list(claim, &["metadata", "finalizers"]).to_vec();
        if !finalizers.iter().any(|finalizer| finalizer == PROTECTION) {
            finalizers.push(json!(PROTECTION));
        }
        set(claim, &["metadata", "finalizers"], finalizers.into());
    },
    cells,
    ..Behaviour::PLAIN
};

fn cells(claim: &Value, now: Timestamp) -> Vec<Value> {
    let deleting = has(claim, &["metadata", "deletionTimestamp"]);
    let phase = if deleting {
        "Terminating"
    } else {
        text(claim, &["status", "phase"])
    };
    let bound = !text(claim, &["spec", "volumeName"]).is_empty();
    let modes: Vec<&str> = list(claim, &["status", "accessModes"])
        .iter()
        .filter_map(short_mode)
        .collect();
    let (capacity, modes) = if bound {
        (
            text(claim, &["status", "capacity", "storage"]).to_owned(),
            modes.join(","),
        )
    } else {
        (String::new(), String::new())
    };
    vec![
        name(claim),
        phase.into(),
        text(claim, &["spec", "volumeName"]).into(),
        capacity.into(),
        modes.into(),
        text(claim, &["spec", "storageClassName"]).into(),
        or(
            text(claim, &["spec", "volumeAttributesClassName"]),
            "<unset>",
        )
        .into(),
        age(claim, now),
        or(
            at(claim, &["spec", "volumeMode"]).as_str().unwrap_or(""),
            "<unset>",
        )
        .into(),
    ]
}

fn short_mode(mode: &Value) -> Option<&'static str> {
    match mode.as_str()? {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    }
}
