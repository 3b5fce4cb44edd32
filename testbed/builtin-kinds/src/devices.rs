//! `resource.k8s.io`: device classes, claims, claim templates and slices. Nothing here allocates.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::behavior::{KindBehavior, SPEC_AND_METADATA};
use super::print::{age, name};
use super::value::{at, default_to, has, items_mut, list, number, text};
use super::{check, require};

const NODES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

/// How device classes behave.
pub(super) const DEVICE_CLASS: KindBehavior = KindBehavior {
    validate: |class| {
        let mut errors = selectors(at(class, &["spec"]), "spec");
        for (index, config) in list(class, &["spec", "config"]).iter().enumerate() {
            if !has(config, &["opaque"]) {
                let field = format!("spec.config[{index}].opaque");
                errors.push(FieldError::required(field, ""));
            }
        }
        errors
    },
    generation: &[&["spec"]],
    ..KindBehavior::PLAIN
};

/// How resource claims behave.
pub(super) const CLAIM: KindBehavior = KindBehavior {
    default: |claim| {
        if let Some(spec) = claim.get_mut("spec") {
            default_requests(spec);
        }
    },
    validate: |claim| requests(at(claim, &["spec"]), "spec"),
    validate_update: |new, old, part| match part {
        Part::Main => check::immutable(new, old, &["spec"]),
        Part::Status => Vec::new(),
    },
    fixed_by_status: SPEC_AND_METADATA,
    unowned_by_status: &[&["spec"], &["metadata"]],
    cells: |claim, now| vec![name(claim), state(claim).into(), age(claim, now)],
    ..KindBehavior::PLAIN
};

/// How claim templates behave.
pub(super) const CLAIM_TEMPLATE: KindBehavior = KindBehavior {
    default: |template| {
        if let Some(spec) = template.pointer_mut("/spec/spec") {
            default_requests(spec);
        }
    },
    validate: |template| requests(at(template, &["spec", "spec"]), "spec.spec"),
    validate_update: |new, old, _| check::immutable(new, old, &["spec"]),
    ..KindBehavior::PLAIN
};

/// How resource slices behave.
pub(super) const SLICE: KindBehavior = KindBehavior {
    validate: |slice| slice_spec(at(slice, &["spec"])),
    validate_update: |new, old, _| {
        [["spec", "driver"], ["spec", "nodeName"]]
            .iter()
            .flat_map(|path| check::immutable(new, old, path))
            .collect()
    },
    unknown_label: |field| format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}"),
    generation: &[&["spec"]],
    selectable: |slice| {
        ["nodeName", "driver"]
            .iter()
            .map(|key| (format!("spec.{key}"), text(slice, &["spec", key]).to_owned()))
            .collect()
    },
    cells: |slice, now| {
        vec![
            name(slice),
            text(slice, &["spec", "nodeName"]).into(),
            text(slice, &["spec", "driver"]).into(),
            text(slice, &["spec", "pool", "name"]).into(),
            age(slice, now),
        ]
    },
    ..KindBehavior::PLAIN
};

fn state(claim: &Value) -> String {
    let deleted = has(claim, &["metadata", "deletionTimestamp"]);
    let allocated = has(claim, &["status", "allocation"]);
    let reserved = allocated && !list(claim, &["status", "reservedFor"]).is_empty();
    [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ]
    .iter()
    .filter(|(shown, _)| *shown)
    .map(|(_, word)| *word)
    .collect::<Vec<_>>()
    .join(",")
}

fn default_requests(spec: &mut Value) {
    for request in items_mut(spec, &["devices", "requests"]) {
        if let Some(exactly) = request.get_mut("exactly") {
            default_count(exactly);
        }
        items_mut(request, &["firstAvailable"]).for_each(default_count);
    }
}

fn default_count(request: &mut Value) {
    default_to(request, "allocationMode", "ExactCount");
    let none = number(request, &["count"]).unwrap_or(0) == 0;
    if none && text(request, &["allocationMode"]) == "ExactCount" {
        request["count"] = 1.into();
    }
}

fn label(name: &str) -> Vec<String> {
    validation::dns_label(name, false)
}

fn requests(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let all = list(spec, &["devices", "requests"]);
    for (index, request) in all.iter().enumerate() {
        let field = format!("{field}.devices.requests[{index}]");
        errors.extend(require::named(request, "name", &field, label));
        let first = list(request, &["firstAvailable"]);
        if has(request, &["exactly"]) {
            errors.extend(exact(at(request, &["exactly"]), &format!("{field}.exactly")));
        } else if first.is_empty() {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            errors.push(FieldError::required(&field, why));
        }
        for (place, request) in first.iter().enumerate() {
            let field = format!("{field}.firstAvailable[{place}]");
            errors.extend(require::named(request, "name", &field, label));
            errors.extend(exact(request, &field));
        }
    }
    errors
}

fn exact(request: &Value, field: &str) -> Vec<FieldError> {
    let subdomain = |name: &str| validation::dns_subdomain(name, false);
    let mut errors = require::named(request, "deviceClassName", field, subdomain);
    errors.extend(selectors(request, field));
    let modes = &["All", "ExactCount"];
    errors.extend(require::known(request, "allocationMode", field, modes));
    errors
}

fn selectors(holder: &Value, field: &str) -> Vec<FieldError> {
    let all = list(holder, &["selectors"]).iter().enumerate();
    all.filter(|(_, selector)| !has(selector, &["cel"]))
        .map(|(index, _)| FieldError::required(format!("{field}.selectors[{index}].cel"), ""))
        .collect()
}

fn slice_spec(spec: &Value) -> Vec<FieldError> {
    let subdomain = |name: &str| validation::dns_subdomain(name, false);
    let mut errors = require::named(spec, "driver", "spec", subdomain);
    errors.extend(require::given(at(spec, &["pool"]), "name", "spec.pool", ""));
    let why = "must be greater than zero";
    let pool = at(spec, &["pool"]);
    errors.extend(require::holds(pool, "resourceSliceCount", "spec.pool", |n| n > 0, why));
    let given = NODES.iter().filter(|key| has(spec, &[key])).count();
    if given != 1 {
        let shown: Vec<String> = NODES.iter().map(|key| format!("`{key}`")).collect();
        let why = format!("exactly one of {} is required", shown.join(", "));
        errors.push(FieldError::required("spec", why));
    }
    for (index, device) in list(spec, &["devices"]).iter().enumerate() {
        errors.extend(require::named(device, "name", &format!("spec.devices[{index}]"), label));
    }
    errors
}
