//! What is wrong with an autoscaler, in the stored version.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::check::{self, one_of};
use super::super::require::{each, given, holds, known, named, nonnegative_quantity, positive};
use super::super::value::{at, has, list, number, text};

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

/// Types of metrics as refusals name them.
const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// A new autoscaler.
pub(super) fn create(scaler: &Value) -> Vec<FieldError> {
    let kind = text(scaler, &["spec", "scaleTargetRef", "kind"]);
    spec(scaler, false, kind == "ReplicationController")
}

/// A change; what the reference names already is not judged again.
pub(super) fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Status {
        let count = |key: &str| check::nonnegative(new, &["status", key], &format!("status.{key}"));
        return [count("currentReplicas"), count("desiredReplicas")].concat();
    }
    let target = |scaler: &Value, key: &str| text(scaler, &["spec", "scaleTargetRef", key]).to_owned();
    let same = |key: &str| target(new, key) == target(old, key);
    let known = same("apiVersion") && same("kind");
    spec(new, known, target(new, "kind") == "ReplicationController")
}

fn spec(scaler: &Value, any_version: bool, core_group: bool) -> Vec<FieldError> {
    let spec = at(scaler, &["spec"]);
    let (least, most) = (
        number(spec, &["minReplicas"]),
        number(spec, &["maxReplicas"]).unwrap_or(0),
    );
    let mut errors = Vec::new();
    let at_least_one = "must be greater than or equal to 1";
    errors.extend(holds(spec, "minReplicas", "spec", |n| n >= 1, at_least_one));
    match most {
        0 => errors.push(FieldError::required(
            "spec.maxReplicas",
            "must be set and greater than 0",
        )),
        _ => errors.extend(holds(spec, "maxReplicas", "spec", |n| n >= 1, at_least_one)),
    }
    if least.is_some_and(|least| most < least) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", most, why));
    }
    let (target, field) = (at(spec, &["scaleTargetRef"]), "spec.scaleTargetRef");
    errors.extend(reference(target, field, any_version, core_group));
    errors.extend(each(spec, "metrics", "spec", validate_metric));
    let from_zero = |metric: &Value| matches!(text(metric, &["type"]), "Object" | "External");
    if least == Some(0) && !list(spec, &["metrics"]).iter().any(from_zero) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", why));
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = at(spec, &["behavior", direction]);
        if !rules.is_null() {
            errors.extend(scaling_rules(rules, &format!("spec.behavior.{direction}")));
        }
    }
    errors
}

fn reference(object: &Value, field: &str, any_version: bool, core_group: bool) -> Vec<FieldError> {
    let segment = |name: &str| validation::path_segment(name, false);
    let mut errors = named(object, "kind", field, segment);
    errors.extend(named(object, "name", field, segment));
    let version = text(object, &["apiVersion"]);
    let why = match version.matches('/').count() {
        _ if any_version => None,
        0 | 1 if version.contains('/') || core_group => None,
        0 => Some("apiVersion must specify API group".to_owned()),
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    };
    let field = format!("{field}.apiVersion");
    errors.extend(why.map(|why| FieldError::invalid(field, version, why)));
    errors
}

fn validate_metric(metric: &Value, field: &str) -> Vec<FieldError> {
    let kind = text(metric, &["type"]);
    let mut errors = given(metric, "type", field, "must specify a metric source type");
    let unknown = one_of(&format!("{field}.type"), kind, &METRIC_TYPES);
    errors.extend(unknown.clone());
    let present: Vec<&str> = SOURCES
        .iter()
        .map(|(_, source)| *source)
        .filter(|source| has(metric, &[source]))
        .collect();
    if let Some(first) = present.first() {
        let field = format!("{field}.{first}");
        errors.extend(source(at(metric, &[first]), first, &field));
    }
    let expected = SOURCES
        .iter()
        .find(|(name, _)| *name == kind)
        .map_or("", |(_, source)| *source);
    if unknown.is_empty() && !present.contains(&expected) {
        let why = "must populate information for the given metric source";
        errors.push(FieldError::required(format!("{field}.{expected}"), why));
    }
    errors.extend(unknown);
    if present.len() != 1 {
        let others = present.iter().filter(|source| **source != expected);
        errors.extend(others.map(|source| {
            let why = "must populate the given metric source only";
            FieldError::forbidden(format!("{field}.{source}"), why)
        }));
    }
    errors
}

fn source(source: &Value, kind: &str, field: &str) -> Vec<FieldError> {
    let mut errors = match kind {
        "resource" => given(source, "name", field, "must specify a resource name"),
        "containerResource" => container(source, field),
        "object" => reference(
            at(source, &["describedObject"]),
            &format!("{field}.describedObject"),
            false,
            true,
        ),
        _ => Vec::new(),
    };
    if matches!(kind, "object" | "external" | "pods") {
        errors.extend(identifier(at(source, &["metric"]), &format!("{field}.metric")));
    }
    let (target, field) = (at(source, &["target"]), format!("{field}.target"));
    errors.extend(validate_target(target, &field));
    errors.extend(fitting(target, kind, &field));
    errors
}

/// Whether a target is given in the way its kind of source is measured.
fn fitting(target: &Value, kind: &str, field: &str) -> Option<FieldError> {
    let [value, average, share] = ["value", "averageValue", "averageUtilization"].map(|key| has(target, &[key]));
    let required = |key: &str, why: &str| FieldError::required(format!("{field}.{key}"), why);
    let forbidden = |key: &str, why: &str| FieldError::forbidden(format!("{field}.{key}"), why);
    match kind {
        "object" if !value && !average => Some(required(
            "averageValue",
            "must set either a target value or averageValue",
        )),
        "external" if !value && !average => Some(required(
            "averageValue",
            "must set either a target value for metric or a per-pod target",
        )),
        "external" if value && average => Some(forbidden(
            "value",
            "may not set both a target value for metric and a per-pod target",
        )),
        "pods" if !average => Some(required("averageValue", "must specify a positive target averageValue")),
        "resource" | "containerResource" if !share && !average => Some(required(
            "averageUtilization",
            "must set either a target raw value or a target utilization",
        )),
        "resource" | "containerResource" if share && average => Some(forbidden(
            "averageValue",
            "may not set both a target raw value and a target utilization",
        )),
        _ => None,
    }
}

fn container(source: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = given(source, "name", field, "must specify a resource name");
    let name = text(source, &["container"]);
    if name.is_empty() {
        errors.push(FieldError::required(
            format!("{field}.container"),
            "must specify a container",
        ));
    } else {
        errors.extend(check::invalid(
            &format!("{field}.container"),
            name,
            validation::dns_label(name, false),
        ));
    }
    errors
}

fn identifier(metric: &Value, field: &str) -> Vec<FieldError> {
    let name = text(metric, &["name"]);
    if name.is_empty() {
        return given(metric, "name", field, "must specify a metric name");
    }
    check::invalid(&format!("{field}.name"), name, validation::path_segment(name, false))
}

fn validate_target(target: &Value, field: &str) -> Vec<FieldError> {
    let kind = text(target, &["type"]);
    let mut errors = given(target, "type", field, "must specify a metric target type");
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(format!("{field}.type"), kind, why));
    }
    errors.extend(positive(target, "value", field, "must be positive"));
    errors.extend(positive(target, "averageValue", field, "must be positive"));
    errors.extend(holds(
        target,
        "averageUtilization",
        field,
        |n| n >= 1,
        "must be greater than 0",
    ));
    errors
}

fn scaling_rules(rules: &Value, field: &str) -> Vec<FieldError> {
    let window = "stabilizationWindowSeconds";
    let mut errors = Vec::new();
    let why = "must be greater than or equal to zero";
    errors.extend(holds(rules, window, field, |n| n >= 0, why));
    let why = "must be less than or equal to 3600";
    errors.extend(holds(rules, window, field, |n| n <= 3600, why));
    let choices = &["Disabled", "Max", "Min"];
    errors.extend(known(rules, "selectPolicy", field, choices));
    if list(rules, &["policies"]).is_empty() {
        let why = "must specify at least one Policy";
        errors.push(FieldError::required(format!("{field}.policies"), why));
    }
    errors.extend(each(rules, "policies", field, scaling_policy));
    let (tolerance, field) = (at(rules, &["tolerance"]), format!("{field}.tolerance"));
    errors.extend(nonnegative_quantity(tolerance, &field));
    errors
}

fn scaling_policy(policy: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = known(policy, "type", field, &["Percent", "Pods"]);
    for key in ["value", "periodSeconds"] {
        let why = "must be greater than zero";
        errors.extend(holds(policy, key, field, |n| n > 0, why));
    }
    let why = "must be less than or equal to 1800";
    errors.extend(holds(policy, "periodSeconds", field, |n| n <= 1800, why));
    errors
}
