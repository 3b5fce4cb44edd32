//! Persistent volume claims: defaults, rules and printed columns. Nothing here binds them.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::pods::defaults::resource_list;
use super::print::{access_modes, age, name, or};
use super::quantity::Quantity;
use super::value::{at, default_to, has, list, protect, set, text};
use super::{check, require};

const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// How claims behave.
pub(super) const CLAIM: KindBehavior = KindBehavior {
    default: |claim| {
        if let Some(spec) = claim.get_mut("spec") {
            default_to(spec, "volumeMode", "Filesystem");
            for which in ["requests", "limits"] {
                resource_list(spec, &["resources", which]);
            }
        }
        for key in ["capacity", "allocatedResources"] {
            resource_list(claim, &["status", key]);
        }
        if let Some(status) = claim.get_mut("status") {
            default_to(status, "phase", "Pending");
        }
    },
    prepare_update: |claim, _, part| {
        if part == Part::Main {
            both_sources(claim);
        }
    },
    prepare_create: |claim| {
        both_sources(claim);
        set(claim, &["status"], json!({ "phase": "Pending" }));
        protect(claim, PROTECTION);
    },
    validate: |claim| spec(at(claim, &["spec"]), "spec"),
    validate_update: update,
    validates_updates: false,
    warnings: byte_warnings,
    update_warnings: |claim, _| byte_warnings(claim),
    cells,
    ..KindBehavior::PLAIN
};

/// `dataSource` takes claims and snapshots only, and `dataSourceRef` says the same.
fn both_sources(claim: &mut Value) {
    let source = at(claim, &["spec", "dataSource"]);
    let known = matches!(
        (text(source, &["apiGroup"]), text(source, &["kind"])),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    if !known {
        set(claim, &["spec", "dataSource"], Value::Null);
    }
    let source = at(claim, &["spec", "dataSource"]).clone();
    let reference = at(claim, &["spec", "dataSourceRef"]).clone();
    if !source.is_null() && reference.is_null() {
        set(claim, &["spec", "dataSourceRef"], source);
    } else if source.is_null() && reference.is_object() && !has(&reference, &["namespace"]) {
        set(claim, &["spec", "dataSource"], reference);
    }
}

fn byte_warnings(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for which in ["requests", "limits"] {
        let amount = text(claim, &["spec", "resources", which, "storage"]);
        if Quantity::parse(amount).is_ok_and(|quantity| !quantity.is_whole()) {
            let shown = aplomb_apimachinery::field::go_quote(amount);
            warnings.push(format!(
                "spec.resources.{which}[storage]: fractional byte value {shown} is invalid, must be an integer"
            ));
        }
    }
    warnings
}

/// What is wrong with the spec of a claim.
pub(super) fn spec(spec: &Value, field: &str) -> Vec<FieldError> {
    let modes = list(spec, &["accessModes"]);
    let modes_field = format!("{field}.accessModes");
    let mut errors = Vec::new();
    if modes.is_empty() {
        let why = "at least 1 access mode is required";
        errors.push(FieldError::required(&modes_field, why));
    }
    errors.extend(check::label_selector(
        at(spec, &["selector"]),
        &format!("{field}.selector"),
    ));
    errors.extend(access_mode_names(modes, &modes_field));
    let storage = format!("{field}.resources[storage]");
    match at(spec, &["resources", "requests", "storage"]) {
        Value::Null => errors.push(FieldError::required(storage, "")),
        amount => {
            let wrong = Quantity::parse(amount.as_str().unwrap_or("0"))
                .is_ok_and(|amount| amount.is_negative() || amount.is_zero());
            if wrong {
                let why = "must be greater than zero";
                errors.push(FieldError::invalid(storage, amount.clone(), why));
            }
        }
    }
    for key in ["storageClassName", "volumeAttributesClassName"] {
        let name = text(spec, &[key]);
        if !name.is_empty() {
            let field = format!("{field}.{key}");
            errors.extend(check::invalid(&field, name, validation::dns_subdomain(name, false)));
        }
    }
    let modes = &["Block", "Filesystem"];
    errors.extend(require::known(spec, "volumeMode", field, modes));
    errors
}

/// Access modes the server knows, and the one that stands alone.
pub(super) fn access_mode_names(modes: &[Value], field: &str) -> Vec<FieldError> {
    const KNOWN: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let names: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    let mut errors: Vec<FieldError> = names
        .iter()
        .flat_map(|mode| check::one_of(field, mode, &KNOWN))
        .collect();
    let alone = |mode: &&&str| **mode == "ReadWriteOncePod";
    let known = names.iter().filter(|mode| KNOWN.contains(mode)).count();
    let single = names.iter().filter(alone).count();
    if single > 0 && known > single {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(field, why));
    }
    errors
}

/// How a volume is used does not change, for a claim or for the volume itself.
pub(super) fn volume_mode_stays(new: &Value, old: &Value) -> Option<FieldError> {
    let path = ["spec", "volumeMode"];
    (at(new, &path) != at(old, &path))
        .then(|| FieldError::invalid("volumeMode", text(new, &path), "field is immutable"))
}

fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Status {
        return Vec::new();
    }
    let mut errors = spec(at(new, &["spec"]), "spec");
    let bound = text(new, &["status", "phase"]) == "Bound";
    let mut allowed = at(old, &["spec"]).clone();
    let mut keep = |path: &[&str]| set(&mut allowed, path, at(&new["spec"], path).clone());
    if text(old, &["spec", "volumeName"]).is_empty() {
        keep(&["volumeName"]);
    }
    if !has(old, &["spec", "storageClassName"]) && has(new, &["spec", "storageClassName"]) {
        keep(&["storageClassName"]);
    }
    if bound {
        keep(&["resources", "requests", "storage"]);
        keep(&["volumeAttributesClassName"]);
    }
    if allowed != *at(new, &["spec"]) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", why));
    }
    let size = |claim: &Value, path: &[&str]| Quantity::parse(at(claim, path).as_str().unwrap_or("0")).ok();
    let wanted = ["spec", "resources", "requests", "storage"];
    let now = size(new, &wanted);
    if now < size(old, &wanted) && now <= size(old, &["status", "capacity", "storage"]) {
        let why = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden(wanted.join("."), why));
    }
    errors.extend(volume_mode_stays(new, old));
    errors
}

fn cells(claim: &Value, now: Timestamp) -> Vec<Value> {
    let deleting = has(claim, &["metadata", "deletionTimestamp"]);
    let phase = if deleting {
        "Terminating"
    } else {
        text(claim, &["status", "phase"])
    };
    let bound = !text(claim, &["spec", "volumeName"]).is_empty();
    let modes = access_modes(list(claim, &["status", "accessModes"]));
    let (capacity, modes) = if bound {
        (or(text(claim, &["status", "capacity", "storage"]), "0"), modes)
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
        or(text(claim, &["spec", "volumeAttributesClassName"]), "<unset>").into(),
        age(claim, now),
        or(at(claim, &["spec", "volumeMode"]).as_str().unwrap_or(""), "<unset>").into(),
    ]
}
