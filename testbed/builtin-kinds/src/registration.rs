//! API services: which server answers for a group version.

use aplomb_apimachinery::field::{FieldError, go_quote};
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::{KindBehavior, SPEC_AND_METADATA};
use super::print::{age, name};
use super::value::{at, default_to, list, number, set, text};
use super::{check, require};

/// How API services behave.
pub(super) const API_SERVICE: KindBehavior = KindBehavior {
    default: |service| {
        if let Some(backend) = service.pointer_mut("/spec/service") {
            default_to(backend, "port", 443);
        }
    },
    prepare_create: |service| {
        if at(service, &["spec", "service"]).is_null() {
            let created = at(service, &["metadata", "creationTimestamp"]).clone();
            let local = json!({ "conditions": [{ "type": "Available", "status": "True",
                "lastTransitionTime": created, "reason": "Local",
                "message": "Local APIServices are always available" }] });
            set(service, &["status"], local);
        }
    },
    validate,
    validate_update: |new, _, part| match part {
        Part::Main => validate(new),
        Part::Status => condition_statuses(new),
    },
    validates_updates: false,
    unconditional: false,
    name: validation::path_segment,
    fixed_by_status: SPEC_AND_METADATA,
    unowned_by_status: &[&["spec"], &["metadata"]],
    cells,
    ..KindBehavior::PLAIN
};

fn cells(service: &Value, now: Timestamp) -> Vec<Value> {
    let backend = at(service, &["spec", "service"]);
    let backend = if backend.is_null() {
        "Local".to_owned()
    } else {
        let part = |key: &str| text(backend, &[key]);
        format!("{}/{}", part("namespace"), part("name"))
    };
    vec![
        name(service),
        backend.into(),
        available(service).into(),
        age(service, now),
    ]
}

fn available(service: &Value) -> String {
    let conditions = list(service, &["status", "conditions"]);
    let Some(condition) = conditions
        .iter()
        .find(|condition| text(condition, &["type"]) == "Available")
    else {
        return "Unknown".to_owned();
    };
    match (text(condition, &["status"]), text(condition, &["reason"])) {
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

fn validate(service: &Value) -> Vec<FieldError> {
    let spec = at(service, &["spec"]);
    let (group, version) = (text(spec, &["group"]), text(spec, &["version"]));
    let mut errors = own_name(text(service, &["metadata", "name"]), &format!("{version}.{group}"));
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", why));
    }
    if !group.is_empty() {
        errors.extend(check::invalid(
            "spec.group",
            group,
            validation::dns_subdomain(group, false),
        ));
    }
    errors.extend(check::invalid(
        "spec.version",
        version,
        validation::dns_1035_label(version),
    ));
    for (key, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let value = number(spec, &[key]).unwrap_or(0);
        if !(1..=most).contains(&value) {
            let why = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(format!("spec.{key}"), value, why));
        }
    }
    errors.extend(backend(spec));
    errors
}

fn own_name(name: &str, expected: &str) -> Vec<FieldError> {
    let expected_shown = go_quote(expected);
    let why = format!("must be `spec.version+\".\"+spec.group`: {expected_shown}");
    if name == expected {
        return Vec::new();
    }
    vec![FieldError::invalid("metadata.name", name, why)]
}

fn backend(spec: &Value) -> Vec<FieldError> {
    let backend = at(spec, &["service"]);
    let insecure = at(spec, &["insecureSkipTLSVerify"]) == &json!(true);
    let refused = |why: &str| FieldError::invalid("spec.insecureSkipTLSVerify", true, why);
    if backend.is_null() {
        let why = "local APIServices may not have insecureSkipTLSVerify";
        return insecure.then(|| refused(why)).into_iter().collect();
    }
    let mut errors = require::given(backend, "namespace", "spec.service", "");
    errors.extend(require::given(backend, "name", "spec.service", ""));
    let port = number(backend, &["port"]).unwrap_or(0);
    if let Some(why) = check::port_number(port) {
        let why = format!("port is not valid: {why}");
        errors.push(FieldError::invalid("spec.service.port", port, why));
    }
    if insecure && !text(spec, &["caBundle"]).is_empty() {
        errors.push(refused("may not be true if caBundle is present"));
    }
    errors
}

fn condition_statuses(service: &Value) -> Vec<FieldError> {
    let conditions = list(service, &["status", "conditions"]).iter().enumerate();
    conditions
        .flat_map(|(index, condition)| {
            let field = format!("status.conditions[{index}].status");
            check::one_of(&field, text(condition, &["status"]), &["True", "False", "Unknown"])
        })
        .collect()
}
