//! Mutating admission policies and their bindings: checked, stored and printed, not evaluated.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::behavior::KindBehavior;
use super::super::print::{age, name};
use super::super::value::{at, default_to, has, list, text};
use super::super::{check, require};
use super::{BINDING, binding_cells, default_match, param_kind, resources};

/// How mutating policies behave.
pub(in super::super) const POLICY: KindBehavior = KindBehavior {
    default: |policy| {
        if let Some(spec) = policy.get_mut("spec") {
            default_to(spec, "failurePolicy", "Fail");
            if let Some(resources) = spec.get_mut("matchConstraints") {
                default_match(resources);
            }
        }
    },
    validate,
    unconditional: false,
    generation: &[&["spec"]],
    cells: |policy, now| {
        let mutations = list(policy, &["spec", "mutations"]).len();
        vec![name(policy), mutations.into(), param_kind(policy), age(policy, now)]
    },
    ..KindBehavior::PLAIN
};

/// How their bindings behave.
pub(in super::super) const POLICY_BINDING: KindBehavior = KindBehavior {
    default: BINDING.default,
    validate: |binding| {
        let spec = at(binding, &["spec"]);
        let mut errors = match text(spec, &["policyName"]) {
            "" => vec![FieldError::required("spec.policyName", "")],
            name => check::invalid("spec.policyName", name, validation::dns_subdomain(name, false)),
        };
        if has(spec, &["paramRef"]) {
            errors.extend(resources::param_ref(at(spec, &["paramRef"]), "spec.paramRef"));
        }
        if has(spec, &["matchResources"]) {
            let field = "spec.matchResources";
            errors.extend(resources::matching(at(spec, &["matchResources"]), field));
        }
        errors
    },
    unconditional: false,
    generation: &[&["spec"]],
    cells: binding_cells,
    ..KindBehavior::PLAIN
};

fn validate(policy: &Value) -> Vec<FieldError> {
    let spec = at(policy, &["spec"]);
    let failure = text(spec, &["failurePolicy"]);
    let mut errors = check::one_of("spec.failurePolicy", failure, &["Fail", "Ignore"]);
    if has(spec, &["paramKind"]) {
        errors.extend(resources::param_kind(at(spec, &["paramKind"]), "spec.paramKind"));
    }
    let constraints = at(spec, &["matchConstraints"]);
    let field = "spec.matchConstraints";
    if constraints.is_null() {
        errors.push(FieldError::required(field, ""));
    } else {
        errors.extend(resources::matching(constraints, field));
        if list(constraints, &["resourceRules"]).is_empty() {
            errors.push(FieldError::required(format!("{field}.resourceRules"), ""));
        }
    }
    if list(spec, &["mutations"]).is_empty() {
        let why = "mutations must contain at least one item";
        errors.push(FieldError::required("spec.mutations", why));
    }
    errors.extend(require::each(spec, "mutations", "spec", validate_mutation));
    match text(spec, &["reinvocationPolicy"]) {
        "" => errors.push(FieldError::required("spec.reinvocationPolicy", "")),
        policy => {
            let allowed = &["IfNeeded", "Never"];
            errors.extend(check::one_of("spec.reinvocationPolicy", policy, allowed));
        }
    }
    errors
}

fn validate_mutation(mutation: &Value, field: &str) -> Vec<FieldError> {
    let kind = text(mutation, &["patchType"]);
    let (own, other) = match kind {
        "" => return vec![FieldError::required(format!("{field}.patchType"), "")],
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => {
            let allowed = &["ApplyConfiguration", "JSONPatch"];
            return check::one_of(&format!("{field}.patchType"), kind, allowed);
        }
    };
    let mut errors = Vec::new();
    if !has(mutation, &[own]) {
        let why = format!("must be specified when patchType is {kind}");
        errors.push(FieldError::required(format!("{field}.{own}"), why));
    }
    if has(mutation, &[other]) {
        let why = format!("must not be specified when patchType is {kind}");
        let field = format!("{field}.{other}");
        errors.push(FieldError::invalid(field, format!("{{{other}}}"), why));
    }
    errors
}
