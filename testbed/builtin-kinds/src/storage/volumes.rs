//! Persistent volumes.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::behavior::KindBehavior;
use super::super::pods::defaults::resource_list;
use super::super::pods::node_selector;
use super::super::print::{access_modes, age, name};
use super::super::quantity::Quantity;
use super::super::value::{at, default_to, has, list, members, protect, restore, set, text};
use super::super::{check, claims, require, shown};

const PROTECTION: &str = "kubernetes.io/pv-protection";
/// Kinds of volumes in the order in which the server looks for them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// How persistent volumes behave.
pub(in super::super) const VOLUME: KindBehavior = KindBehavior {
    default: default_volume,
    prepare_create: |volume| {
        let created = at(volume, &["metadata", "creationTimestamp"]).clone();
        set(
            volume,
            &["status"],
            json!({ "phase": "Pending", "lastPhaseTransitionTime": created }),
        );
        protect(volume, PROTECTION);
    },
    prepare_update: |volume, old, part| {
        let time = ["status", "lastPhaseTransitionTime"];
        if part == Part::Status && !has(volume, &time) {
            restore(volume, old, &time);
        }
    },
    warnings: recycled,
    update_warnings: |volume, _| recycled(volume),
    validate,
    validate_update: update,
    validates_updates: false,
    cells,
    ..KindBehavior::PLAIN
};

fn cells(volume: &Value, now: Timestamp) -> Vec<Value> {
    let claim = at(volume, &["spec", "claimRef"]);
    let claim = if claim.is_null() {
        String::new()
    } else {
        format!("{}/{}", text(claim, &["namespace"]), text(claim, &["name"]))
    };
    let phase = if has(volume, &["metadata", "deletionTimestamp"]) {
        "Terminating"
    } else {
        text(volume, &["status", "phase"])
    };
    let or_unset = |path: &[&str]| at(volume, path).as_str().unwrap_or("<unset>").to_owned();
    let capacity = at(volume, &["spec", "capacity", "storage"]);
    vec![
        name(volume),
        capacity.as_str().unwrap_or("0").into(),
        access_modes(list(volume, &["spec", "accessModes"])).into(),
        text(volume, &["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase.into(),
        claim.into(),
        class(volume).into(),
        or_unset(&["spec", "volumeAttributesClassName"]).into(),
        text(volume, &["status", "reason"]).into(),
        age(volume, now),
        or_unset(&["spec", "volumeMode"]).into(),
    ]
}

/// The class a volume is of; an old annotation wins.
fn class(volume: &Value) -> &str {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    at(volume, &["metadata", "annotations", ANNOTATION])
        .as_str()
        .unwrap_or_else(|| text(volume, &["spec", "storageClassName"]))
}

fn recycled(volume: &Value) -> Vec<String> {
    if text(volume, &["spec", "persistentVolumeReclaimPolicy"]) != "Recycle" {
        return Vec::new();
    }
    let warning = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
    vec![warning.to_owned()]
}

fn default_volume(volume: &mut Value) {
    resource_list(volume, &["spec", "capacity"]);
    if let Some(status) = volume.get_mut("status") {
        default_to(status, "phase", "Pending");
    }
    let Some(spec) = volume.get_mut("spec") else {
        return;
    };
    default_to(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_to(spec, "volumeMode", "Filesystem");
    if let Some(path) = spec.get_mut("hostPath") {
        default_to(path, "type", "");
    }
}

fn validate(volume: &Value) -> Vec<FieldError> {
    let spec = at(volume, &["spec"]);
    let modes = list(spec, &["accessModes"]);
    let mut errors = Vec::new();
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", ""));
    }
    errors.extend(claims::access_mode_names(modes, "spec.accessModes"));
    errors.extend(capacity(spec));
    let policies = &["Delete", "Recycle", "Retain"];
    let policy = "persistentVolumeReclaimPolicy";
    errors.extend(require::known(spec, policy, "spec", policies));
    let affinity = at(spec, &["nodeAffinity"]);
    if has(affinity, &["required"]) {
        let field = "spec.nodeAffinity.required";
        errors.extend(node_selector(at(affinity, &["required"]), field));
    } else if !affinity.is_null() {
        let why = "must specify required node constraints";
        errors.push(FieldError::required("spec.nodeAffinity.required", why));
    }
    errors.extend(source(spec));
    let path = text(spec, &["hostPath", "path"]);
    if path == "/" && text(spec, &[policy]) == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(format!("spec.{policy}"), why));
    }
    let class = text(spec, &["storageClassName"]);
    if !class.is_empty() {
        let wrong = validation::dns_subdomain(class, false);
        errors.extend(check::invalid("spec.storageClassName", class, wrong));
    }
    let modes = &["Block", "Filesystem"];
    errors.extend(require::known(spec, "volumeMode", "spec", modes));
    errors
}

fn capacity(spec: &Value) -> Vec<FieldError> {
    let amounts: Vec<(&String, &Value)> = members(spec, &["capacity"]).collect();
    let mut errors = Vec::new();
    if amounts.is_empty() {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if amounts.len() != 1 || amounts[0].0 != "storage" {
        let shown = at(spec, &["capacity"]).to_string();
        errors.push(shown::not_supported("spec.capacity", &shown, &["storage"]));
    }
    for (resource, amount) in amounts {
        let wrong = Quantity::parse(amount.as_str().unwrap_or("0"))
            .is_ok_and(|amount| amount.is_negative() || amount.is_zero());
        if wrong {
            let field = format!("spec.capacity[{resource}]");
            let why = "must be greater than zero";
            errors.push(FieldError::invalid(field, amount.clone(), why));
        }
    }
    errors
}

fn source(spec: &Value) -> Vec<FieldError> {
    let mut given = SOURCES.iter().filter(|kind| has(spec, &[kind]));
    let Some(first) = given.next() else {
        return vec![FieldError::required("spec", "must specify a volume type")];
    };
    let mut errors = one_source(spec, first);
    errors.extend(given.map(|kind| {
        let why = "may not specify more than 1 volume type";
        FieldError::forbidden(format!("spec.{kind}"), why)
    }));
    errors
}

fn one_source(spec: &Value, kind: &str) -> Vec<FieldError> {
    let (source, field) = (at(spec, &[kind]), format!("spec.{kind}"));
    let path = text(source, &["path"]);
    let wrong_path = |why: &str| FieldError::invalid(format!("{field}.path"), path, why);
    let mut errors = Vec::new();
    match kind {
        "hostPath" | "local" => {
            errors.extend(require::given(source, "path", &field, ""));
            if path.split('/').any(|part| part == "..") {
                errors.push(wrong_path("must not contain '..'"));
            }
            if kind == "local" && !has(spec, &["nodeAffinity"]) {
                let why = "Local volume requires node affinity";
                errors.push(FieldError::required("spec.nodeAffinity", why));
            }
        }
        "nfs" => {
            errors.extend(require::given(source, "server", &field, ""));
            errors.extend(require::given(source, "path", &field, ""));
            if !path.starts_with('/') {
                errors.push(wrong_path("must be an absolute path"));
            }
        }
        "csi" => {
            errors.extend(validation::csi_driver(
                text(source, &["driver"]),
                &format!("{field}.driver"),
            ));
            errors.extend(require::given(source, "volumeHandle", &field, ""));
        }
        _ => {}
    }
    errors
}

fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Status {
        return Vec::new();
    }
    // The server checks the whole twice: once as a new volume and once as a change.
    let mut errors = validate(new);
    errors.extend(validate(new));
    if SOURCES
        .iter()
        .any(|kind| at(new, &["spec", kind]) != at(old, &["spec", kind]))
    {
        let why = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", why));
    }
    errors.extend(claims::volume_mode_stays(new, old));
    errors
}
