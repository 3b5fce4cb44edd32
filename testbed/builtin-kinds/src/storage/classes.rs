//! Storage classes, volume attributes classes and volume attachments.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::Value;

use super::super::behavior::{KindBehavior, SPEC_AND_METADATA};
use super::super::check;
use super::super::print::{age, flag, name, or};
use super::super::value::{at, default_to, has, list, members, text};

const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// How storage classes behave.
pub(in super::super) const STORAGE_CLASS: KindBehavior = KindBehavior {
    default: |class| {
        default_to(class, "reclaimPolicy", "Delete");
        default_to(class, "volumeBindingMode", "Immediate");
    },
    validate: storage_class,
    validate_update: |new, old, _| {
        let mut errors = storage_class(new);
        for key in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            errors.extend(check::immutable(new, old, &[key]));
        }
        errors
    },
    validates_updates: false,
    cells: class_cells,
    ..KindBehavior::PLAIN
};

/// How volume attributes classes behave.
pub(in super::super) const ATTRIBUTES_CLASS: KindBehavior = KindBehavior {
    prepare_create: |class| super::super::value::protect(class, "kubernetes.io/vac-protection"),
    validate: |class| {
        let mut errors = provisioner(text(class, &["driverName"]), "driverName");
        errors.extend(parameters(class));
        if members(class, &["parameters"]).next().is_none() {
            let why = "must contain at least one key/value pair";
            errors.push(FieldError::required("parameters", why));
        }
        errors
    },
    validate_update: |new, old, _| {
        let changed = |key: &&str| at(new, &[key]) != at(old, &[key]);
        let forbidden = |key: &str| FieldError::forbidden(key, format!("updates to {key} are forbidden."));
        ["driverName", "parameters"]
            .into_iter()
            .filter(changed)
            .map(forbidden)
            .collect()
    },
    cells: |class, now| {
        let driver = text(class, &["driverName"]);
        vec![name(class), driver.into(), age(class, now)]
    },
    ..KindBehavior::PLAIN
};

/// How volume attachments behave.
pub(in super::super) const ATTACHMENT: KindBehavior = KindBehavior {
    validate: attachment,
    validate_update: |new, old, part| {
        if part == Part::Status {
            return attachment(new);
        }
        check::immutable(new, old, &["spec"])
    },
    unconditional: false,
    fixed_by_status: SPEC_AND_METADATA,
    unowned_by_status: &[&["spec"], &["metadata"]],
    cells: |attachment, now| {
        let spec = |path: &[&str]| -> Value { text(&attachment["spec"], path).into() };
        vec![
            name(attachment),
            spec(&["attacher"]),
            spec(&["source", "persistentVolumeName"]),
            spec(&["nodeName"]),
            flag(attachment, &["status", "attached"], false),
            age(attachment, now),
        ]
    },
    ..KindBehavior::PLAIN
};

/// Whether claims that name no class get this one.
pub(in super::super) fn is_default(class: &Value) -> bool {
    IS_DEFAULT
        .iter()
        .any(|key| text(class, &["metadata", "annotations", key]) == "true")
}

fn class_cells(class: &Value, now: Timestamp) -> Vec<Value> {
    let suffix = if is_default(class) { " (default)" } else { "" };
    vec![
        format!("{}{suffix}", text(class, &["metadata", "name"])).into(),
        text(class, &["provisioner"]).into(),
        or(text(class, &["reclaimPolicy"]), "Delete").into(),
        or(text(class, &["volumeBindingMode"]), "Immediate").into(),
        flag(class, &["allowVolumeExpansion"], false),
        age(class, now),
    ]
}

fn storage_class(class: &Value) -> Vec<FieldError> {
    let mut errors = provisioner(text(class, &["provisioner"]), "provisioner");
    errors.extend(parameters(class));
    let policy = text(class, &["reclaimPolicy"]);
    errors.extend(check::one_of("reclaimPolicy", policy, &["Delete", "Retain"]));
    let mode = text(class, &["volumeBindingMode"]);
    let allowed = &["Immediate", "WaitForFirstConsumer"];
    errors.extend(check::one_of("volumeBindingMode", mode, allowed));
    for (index, term) in list(class, &["allowedTopologies"]).iter().enumerate() {
        let expressions = list(term, &["matchLabelExpressions"]);
        for (place, expression) in expressions.iter().enumerate() {
            let field = format!("allowedTopologies[{index}].matchLabelExpressions[{place}]");
            if list(expression, &["values"]).is_empty() {
                errors.push(FieldError::required(format!("{field}.values"), ""));
            }
            let key = text(expression, &["key"]);
            errors.extend(check::invalid(&format!("{field}.key"), key, validation::label_key(key)));
        }
    }
    errors
}

fn provisioner(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let lower = name.to_lowercase();
    check::invalid(field, &lower, validation::label_key(&lower))
}

fn parameters(class: &Value) -> Vec<FieldError> {
    members(class, &["parameters"])
        .filter(|(key, _)| key.is_empty())
        .map(|_| FieldError::invalid("parameters", "", "field can not be empty."))
        .collect()
}

fn attachment(attachment: &Value) -> Vec<FieldError> {
    let spec = at(attachment, &["spec"]);
    let mut errors = validation::csi_driver(text(spec, &["attacher"]), "spec.attacher");
    let source = at(spec, &["source"]);
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let volume = at(source, &["persistentVolumeName"]).as_str();
    match (has(source, &["inlineVolumeSpec"]), volume) {
        (false, None) => errors.push(FieldError::required("spec.source", why)),
        (true, Some(_)) => errors.push(FieldError::forbidden("spec.source", why)),
        (false, Some("")) => {
            let why = "must specify non empty persistentVolumeName";
            errors.push(FieldError::required("spec.source.persistentVolumeName", why));
        }
        _ => {}
    }
    let node = text(spec, &["nodeName"]);
    errors.extend(check::invalid(
        "spec.nodeName",
        node,
        validation::dns_subdomain(node, false),
    ));
    if let Some(volume) = volume {
        let wrong = validation::dns_subdomain(volume, false);
        errors.extend(check::invalid("spec.source.persistentVolumeName", volume, wrong));
    }
    errors
}
