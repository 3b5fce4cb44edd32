//! Validating admission policies and their bindings: stored and printed, evaluated elsewhere.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::check;
use super::names;
use super::print::{age, name, selector};
use super::value::{at, default_to, has, items_mut, list, text};
use crate::field::FieldError;

/// How policies behave.
pub(super) const POLICY: Behaviour = Behaviour {
    default: |policy| {
        let Some(spec) = policy.get_mut("spec") else {
            return;
        };
        default_to(spec, "failurePolicy", "Fail");
        if let Some(resources) = spec.get_mut("matchConstraints") {
            default_match(resources);
        }
    },
    validate: validate_policy,
    unconditional: false,
    generation: &[&["spec"]],
    fixed_by_status: &[
        &["spec"],
        &["metadata", "labels"],
        &["metadata", "annotations"],
        &["metadata", "finalizers"],
        &["metadata", "ownerReferences"],
    ],
    unowned_by_status: &[&["spec"], &["metadata"]],
    cells: policy_cells,
    ..Behaviour::PLAIN
};

/// How bindings behave.
pub(super) const BINDING: Behaviour = Behaviour {
    default: |binding| {
        if let Some(resources) = binding.pointer_mut("/spec/matchResources") {
            default_match(resources);
        }
    },
    validate: validate_binding,
    unconditional: false,
    generation: &[&["spec"]],
    cells: binding_cells,
    ..Behaviour::PLAIN
};

fn default_match(resources: &mut Value) {
    default_to(resources, "matchPolicy", "Equivalent");
    default_to(resources, "namespaceSelector", json!({}));
    default_to(resources, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(resources, &[rules]) {
            default_to(rule, "scope", "*");
        }
    }
}

fn validate_policy(policy: &Value) -> Vec<FieldError> {
    let spec = at(policy, &["spec"]);
    let failure = text(spec, &["failurePolicy"]);
    let mut errors = check::one_of("spec.failurePolicy", failure, &["Fail", "Ignore"]);
    if !has(spec, &["matchConstraints"]) {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    } else if list(spec, &["matchConstraints", "resourceRules"]).is_empty() {
        errors.push(FieldError::required(
            "spec.matchConstraints.resourceRules",
            "",
        ));
    }
    if list(spec, &["validations"]).is_empty() && list(spec, &["auditAnnotations"]).is_empty() {
        for key in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(format!("spec.{key}"), why));
        }
    }
    errors
}

fn validate_binding(binding: &Value) -> Vec<FieldError> {
    let mut errors = match text(binding, &["spec", "policyName"]) {
        "" => vec![FieldError::required("spec.policyName", "")],
        name => check::invalid("spec.policyName", name, names::subdomain(name, false)),
    };
    let actions = list(binding, &["spec", "validationActions"]);
    for (index, action) in actions.iter().enumerate() {
        let (name, field) = (
            action.as_str().unwrap_or(""),
            format!("spec.validationActions[{index}]"),
        );
        errors.extend(check::one_of(&field, name, &["Audit", "Deny", "Warn"]));
        if actions[..index].contains(action) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
    if actions.is_empty() {
        let why = "at least one validation action is required";
        errors.push(FieldError::required("spec.validationActions", why));
    }
    errors
}

fn policy_cells(policy: &Value, now: Timestamp) -> Vec<Value> {
    let kind = at(policy, &["spec", "paramKind"]);
    let shown = match kind {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", text(kind, &["apiVersion"]), text(kind, &["kind"])),
    };
    let validations = list(policy, &["spec", "validations"]).len();
    vec![
        name(policy),
        validations.into(),
        shown.into(),
        age(policy, now),
    ]
}

fn binding_cells(binding: &Value, now: Timestamp) -> Vec<Value> {
    let reference = at(binding, &["spec", "paramRef"]);
    let shown = match (text(reference, &["name"]), text(reference, &["namespace"])) {
        ("", _) if has(reference, &["selector"]) => selector(at(reference, &["selector"])),
        ("", _) => "<unset>".to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![
        name(binding),
        text(binding, &["spec", "policyName"]).into(),
        shown.into(),
        age(binding, now),
    ]
}
