//! Ingresses and their classes.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::Value;

use super::behavior::KindBehavior;
use super::print::{NONE, age, name, or};
use super::value::{at, default_to, has, list, text};
use super::{check, require};

mod rules;

const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

const OLD_CLASS: &str = "kubernetes.io/ingress.class";

/// How ingresses behave.
pub(super) const INGRESS: KindBehavior = KindBehavior {
    validate: |ingress| {
        let mut errors = rules::spec(at(ingress, &["spec"]));
        errors.extend(two_classes(ingress));
        errors
    },
    validate_update: |new, _, part| match part {
        Part::Main => rules::spec(at(new, &["spec"])),
        Part::Status => rules::addresses(new),
    },
    validates_updates: false,
    warnings: |ingress| {
        let old = !at(ingress, &["metadata", "annotations", OLD_CLASS]).is_null();
        let warning = format!("annotation \"{OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead");
        let unclassed = !has(ingress, &["spec", "ingressClassName"]);
        (old && unclassed).then_some(warning).into_iter().collect()
    },
    generation: &[&["spec"]],
    cells: ingress_cells,
    ..KindBehavior::PLAIN
};

/// How ingress classes behave.
pub(super) const INGRESS_CLASS: KindBehavior = KindBehavior {
    default: |class| {
        if let Some(parameters) = class.pointer_mut("/spec/parameters") {
            default_to(parameters, "scope", "Cluster");
        }
    },
    validate: |class| class_spec(at(class, &["spec"])),
    validate_update: |new, old, _| check::immutable(new, old, &["spec", "controller"]),
    generation: &[&["spec"]],
    cells: class_cells,
    ..KindBehavior::PLAIN
};

fn two_classes(ingress: &Value) -> Option<FieldError> {
    let old = at(ingress, &["metadata", "annotations", OLD_CLASS]).as_str()?;
    let class = at(ingress, &["spec", "ingressClassName"]).as_str()?;
    let why = "must match `ingressClassName` when both are specified";
    (old != class).then(|| FieldError::invalid(format!("annotations.{OLD_CLASS}"), old, why))
}

fn class_spec(spec: &Value) -> Vec<FieldError> {
    let mut errors = validation::domain_prefixed_path(text(spec, &["controller"]), "spec.controller");
    let parameters = at(spec, &["parameters"]);
    if parameters.is_null() {
        return errors;
    }
    let field = "spec.parameters";
    errors.extend(object_reference(parameters, field));
    errors.extend(require::known(parameters, "scope", field, &["Cluster", "Namespace"]));
    let namespace = at(parameters, &["namespace"]).as_str();
    let field = format!("{field}.namespace");
    match (text(parameters, &["scope"]), namespace) {
        ("Namespace", None) => {
            let why = "`parameters.scope` is set to 'Namespace'";
            errors.push(FieldError::required(field, why));
        }
        ("Namespace", Some(name)) => {
            errors.extend(check::invalid(&field, name, validation::dns_label(name, false)));
        }
        ("Cluster", Some(_)) => {
            let why = "`parameters.scope` is set to 'Cluster'";
            errors.push(FieldError::forbidden(field, why));
        }
        _ => {}
    }
    errors
}

/// Group, kind and name of another object.
fn object_reference(reference: &Value, field: &str) -> Vec<FieldError> {
    let segment = |name: &str| validation::path_segment(name, false);
    let mut errors = Vec::new();
    if let Some(group) = at(reference, &["apiGroup"]).as_str() {
        let wrong = validation::dns_subdomain(group, false);
        errors.extend(check::invalid(&format!("{field}.apiGroup"), group, wrong));
    }
    errors.extend(require::named(reference, "kind", field, segment));
    errors.extend(require::named(reference, "name", field, segment));
    errors
}

fn ingress_cells(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let addresses: BTreeSet<&str> = list(ingress, &["status", "loadBalancer", "ingress"])
        .iter()
        .map(|point| match text(point, &["ip"]) {
            "" => text(point, &["hostname"]),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    let addresses: Vec<&str> = addresses.into_iter().collect();
    let ports = if list(ingress, &["spec", "tls"]).is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        name(ingress),
        or(text(ingress, &["spec", "ingressClassName"]), NONE).into(),
        hosts(list(ingress, &["spec", "rules"])).into(),
        addresses.join(",").into(),
        ports.into(),
        age(ingress, now),
    ]
}

/// The first three hosts; any host is a star.
fn hosts(rules: &[Value]) -> String {
    let named: Vec<(usize, &str)> = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| (index, text(rule, &["host"])))
        .filter(|(_, host)| !host.is_empty())
        .take(3)
        .collect();
    let shown: Vec<&str> = named.iter().map(|(_, host)| *host).collect();
    let third = named.get(2).map(|(index, _)| *index);
    match third {
        _ if named.is_empty() => "*".to_owned(),
        Some(index) if index + 1 < rules.len() => {
            format!("{} + {} more...", shown.join(","), rules.len() - 3)
        }
        _ => shown.join(","),
    }
}

fn class_cells(class: &Value, now: Timestamp) -> Vec<Value> {
    let default = text(class, &["metadata", "annotations", IS_DEFAULT]) == "true";
    let parameters = at(class, &["spec", "parameters"]);
    let shown = if parameters.is_null() {
        NONE.to_owned()
    } else {
        let group = text(parameters, &["apiGroup"]);
        let dot = if has(parameters, &["apiGroup"]) { "." } else { "" };
        let kind = text(parameters, &["kind"]);
        format!("{kind}{dot}{group}/{}", text(parameters, &["name"]))
    };
    let suffix = if default { " (default)" } else { "" };
    vec![
        format!("{}{suffix}", text(class, &["metadata", "name"])).into(),
        text(class, &["spec", "controller"]).into(),
        shown.into(),
        age(class, now),
    ]
}
