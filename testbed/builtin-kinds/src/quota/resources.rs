//! What is wrong with a resource quota.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::quantity::Quantity;
use super::super::value::{at, list, members, text};
use super::super::{check, shown};

const COMPUTE: [&str; 6] = [
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];
const OTHER: [&str; 4] = [
    "ephemeral-storage",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
];
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

fn is_standard(name: &str) -> bool {
    let huge = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    COMPUTE.contains(&name) || OTHER.contains(&name) || COUNTED.contains(&name) || huge
}

/// Whether a scope says anything about a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        scope if SCOPES.contains(&scope) => resource == "pods" || COMPUTE.contains(&resource),
        _ => true,
    }
}

/// The spec of a quota.
pub(super) fn spec(spec: &Value) -> Vec<FieldError> {
    let mut errors = amounts(at(spec, &["hard"]), "spec.hard");
    let scopes: Vec<&str> = list(spec, &["scopes"]).iter().filter_map(Value::as_str).collect();
    let shown = at(spec, &["scopes"]).to_string();
    let refused = |why: &str| shown::invalid("spec.scopes", &shown, why);
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.push(refused("unsupported scope"));
        }
        let alien = members(spec, &["hard"]).filter(|(name, _)| is_standard(name) && !fits(scope, name));
        errors.extend(alien.map(|_| refused("unsupported scope applied to resource")));
    }
    errors.extend(conflicts(&scopes).map(|()| refused("conflicting scopes")));
    errors.extend(selector(spec));
    errors
}

fn conflicts(scopes: &[&str]) -> impl Iterator<Item = ()> {
    let both = |pair: &&[&str; 2]| pair.iter().all(|scope| scopes.contains(scope));
    let found = OPPOSITES.iter().filter(both).count();
    std::iter::repeat_n((), found)
}

fn amounts(hard: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, amount) in members(hard, &[]) {
        let field = format!("{field}[{name}]");
        errors.extend(resource_name(name, &field));
        let Some(quantity) = amount.as_str().and_then(|text| Quantity::parse(text).ok()) else {
            continue;
        };
        let refused = |why: &str| FieldError::invalid(&field, amount.clone(), why);
        if quantity.is_negative() {
            errors.push(refused("must be greater than or equal to 0"));
        }
        let counted = COUNTED.contains(&name.as_str()) || (name.contains('/') && !name.contains("kubernetes.io/"));
        if counted && !quantity.is_whole() {
            errors.push(refused("must be an integer"));
        }
    }
    errors
}

fn resource_name(name: &str, field: &str) -> Vec<FieldError> {
    let mut errors = check::invalid(field, name, validation::label_key(name));
    if !name.contains('/') && !is_standard(name) {
        if errors.is_empty() && name != "storage" {
            let why = "must be a standard resource type or fully qualified";
            errors.push(FieldError::invalid(field, name, why));
        }
        let why = "must be a standard resource for quota";
        errors.push(FieldError::invalid(field, name, why));
    }
    errors
}

fn selector(spec: &Value) -> Vec<FieldError> {
    let field = "spec.scopeSelector.matchExpressions";
    let expressions = list(spec, &["scopeSelector", "matchExpressions"]);
    let mut errors = Vec::new();
    for expression in expressions {
        let (scope, operator) = (text(expression, &["scopeName"]), text(expression, &["operator"]));
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(
                format!("{field}.scopeName"),
                scope,
                "unsupported scope",
            ));
        }
        let values = list(expression, &["values"]);
        if SCOPES.contains(&scope)
            && !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && operator != "Exists"
        {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(format!("{field}.operator"), operator, why));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(format!("{field}.values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                let shown = at(expression, &["values"]).to_string();
                errors.push(shown::invalid(format!("{field}.values"), &shown, why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{field}.operator"), other, why));
            }
        }
    }
    errors
}

/// A change: what a quota applies to is fixed.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = spec(at(new, &["spec"]));
    let scopes = |quota: &Value| -> BTreeSet<String> {
        let scopes = list(quota, &["spec", "scopes"]).iter();
        scopes.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if scopes(new) != scopes(old) {
        let shown = at(new, &["spec", "scopes"]).to_string();
        errors.push(shown::invalid("spec.scopes", &shown, "field is immutable"));
    }
    errors
}

/// What the status says is there and is used.
pub(super) fn status(quota: &Value) -> Vec<FieldError> {
    let mut errors = amounts(at(quota, &["status", "hard"]), "status.hard");
    errors.extend(amounts(at(quota, &["status", "used"]), "status.used"));
    errors
}
