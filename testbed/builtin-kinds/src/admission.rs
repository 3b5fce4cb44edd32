//! Validating admission policies and their bindings as objects; `aplomb_apiserver::admission` evaluates them.

mod compiler;
mod expressions;
pub(super) mod mutating;
mod resources;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::check;
use super::print::{age, name, selector};
use super::value::{at, default_to, has, items_mut, list, text};

pub use compiler::{Compiler, Wanted};
pub(super) use resources::rule;

/// How policies behave.
pub(super) const POLICY: KindBehavior = KindBehavior {
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
    ..KindBehavior::PLAIN
};

/// How bindings behave.
pub(super) const BINDING: KindBehavior = KindBehavior {
    default: |binding| {
        if let Some(resources) = binding.pointer_mut("/spec/matchResources") {
            default_match(resources);
        }
    },
    validate: validate_binding,
    unconditional: false,
    generation: &[&["spec"]],
    cells: binding_cells,
    ..KindBehavior::PLAIN
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
    let params = at(spec, &["paramKind"]);
    if params.is_object() {
        errors.extend(resources::param_kind(params, "spec.paramKind"));
    }
    let constraints = at(spec, &["matchConstraints"]);
    if constraints.is_object() {
        errors.extend(resources::matching(constraints, "spec.matchConstraints"));
        if list(constraints, &["resourceRules"]).is_empty() {
            errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
        }
    } else {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    }
    errors.extend(expressions::validate(text(policy, &["metadata", "name"]), spec));
    errors
}

fn validate_binding(binding: &Value) -> Vec<FieldError> {
    let spec = at(binding, &["spec"]);
    let mut errors = match text(spec, &["policyName"]) {
        "" => vec![FieldError::required("spec.policyName", "")],
        name => check::invalid("spec.policyName", name, validation::dns_subdomain(name, false)),
    };
    let reference = at(spec, &["paramRef"]);
    if reference.is_object() {
        errors.extend(resources::param_ref(reference, "spec.paramRef"));
    }
    let matching = at(spec, &["matchResources"]);
    if matching.is_object() {
        errors.extend(resources::matching(matching, "spec.matchResources"));
    }
    errors.extend(validate_actions(list(spec, &["validationActions"])));
    errors
}

fn validate_actions(actions: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
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
    let said = |name: &str| actions.iter().any(|action| action == name);
    if said("Deny") && said("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        let field = "spec.validationActions";
        errors.push(FieldError::invalid(field, actions.to_vec(), why));
    }
    if actions.is_empty() {
        let why = "at least one validation action is required";
        errors.push(FieldError::required("spec.validationActions", why));
    }
    errors
}

fn param_kind(policy: &Value) -> Value {
    let shown = match at(policy, &["spec", "paramKind"]) {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", text(kind, &["apiVersion"]), text(kind, &["kind"])),
    };
    shown.into()
}

fn policy_cells(policy: &Value, now: Timestamp) -> Vec<Value> {
    let validations = list(policy, &["spec", "validations"]).len();
    vec![name(policy), validations.into(), param_kind(policy), age(policy, now)]
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
