//! What is wrong with where a pod wants to run: affinity and topology spread.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::value::{at, list, number, text};
use super::super::{check, require};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: &str = "must be in the range 1-100";

/// Affinity to nodes and to other pods.
pub(super) fn affinity(affinity: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nodes = at(affinity, &["nodeAffinity"]);
    let node_field = format!("{field}.nodeAffinity");
    if !at(nodes, &[REQUIRED]).is_null() {
        let field = format!("{node_field}.{REQUIRED}");
        errors.extend(node_selector(at(nodes, &[REQUIRED]), &field));
    }
    for (index, term) in list(nodes, &[PREFERRED]).iter().enumerate() {
        let field = format!("{node_field}.{PREFERRED}[{index}]");
        errors.extend(weight(term, &field));
        let preference = at(term, &["preference"]);
        errors.extend(node_term(preference, &format!("{field}.preference"), true));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let field = format!("{field}.{kind}");
        for (index, term) in list(affinity, &[kind, REQUIRED]).iter().enumerate() {
            errors.extend(pod_term(term, &format!("{field}.{REQUIRED}[{index}]")));
        }
        for (index, term) in list(affinity, &[kind, PREFERRED]).iter().enumerate() {
            let field = format!("{field}.{PREFERRED}[{index}]");
            errors.extend(weight(term, &field));
            let inner = at(term, &["podAffinityTerm"]);
            errors.extend(pod_term(inner, &format!("{field}.podAffinityTerm")));
        }
    }
    errors
}

fn weight(term: &Value, field: &str) -> Option<FieldError> {
    require::holds(term, "weight", field, |n| (1..=100).contains(&n), WEIGHT)
}

/// A selector of nodes, as pods and volumes have it.
pub(crate) fn node_selector(selector: &Value, field: &str) -> Vec<FieldError> {
    let terms = list(selector, &["nodeSelectorTerms"]);
    let field = format!("{field}.nodeSelectorTerms");
    if terms.is_empty() {
        let why = "must have at least one node selector term";
        return vec![FieldError::required(field, why)];
    }
    let terms = terms.iter().enumerate();
    terms
        .flat_map(|(index, term)| node_term(term, &format!("{field}[{index}]"), false))
        .collect()
}

fn node_term(term: &Value, field: &str, any_value: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, requirement) in list(term, &["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        errors.extend(node_requirement(requirement, &field, any_value));
    }
    for (index, requirement) in list(term, &["matchFields"]).iter().enumerate() {
        let field = format!("{field}.matchFields[{index}]");
        errors.extend(field_requirement(requirement, &field));
    }
    errors
}

fn operator_unknown(requirement: &Value, field: &str) -> FieldError {
    let why = "not a valid selector operator";
    let operator = text(requirement, &["operator"]);
    FieldError::invalid(format!("{field}.operator"), operator, why)
}

fn node_requirement(requirement: &Value, field: &str, any_value: bool) -> Vec<FieldError> {
    let values = list(requirement, &["values"]);
    let values_field = format!("{field}.values");
    let mut errors = Vec::new();
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values_field, why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values_field, why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&values_field, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(operator_unknown(requirement, field)),
    }
    let key = text(requirement, &["key"]);
    errors.extend(check::invalid(&format!("{field}.key"), key, validation::label_key(key)));
    for (index, value) in values.iter().enumerate().filter(|_| !any_value) {
        let value = value.as_str().unwrap_or("");
        let field = format!("{values_field}[{index}]");
        errors.extend(check::invalid(&field, value, validation::label_value(value)));
    }
    errors
}

fn field_requirement(requirement: &Value, field: &str) -> Vec<FieldError> {
    let values = list(requirement, &["values"]);
    let mut errors = Vec::new();
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(format!("{field}.values"), why));
        }
        "In" | "NotIn" => {}
        _ => errors.push(operator_unknown(requirement, field)),
    }
    let key = text(requirement, &["key"]);
    if key != "metadata.name" {
        let why = "not a valid field selector key";
        errors.push(FieldError::invalid(format!("{field}.key"), key, why));
        return errors;
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or("");
        let field = format!("{field}.values[{index}]");
        errors.extend(check::invalid(&field, value, validation::dns_subdomain(value, false)));
    }
    errors
}

fn pod_term(term: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["labelSelector", "namespaceSelector"] {
        errors.extend(check::label_selector(at(term, &[key]), &format!("{field}.{key}")));
    }
    for namespace in list(term, &["namespaces"]) {
        let name = namespace.as_str().unwrap_or("");
        let field = format!("{field}.namespace");
        errors.extend(check::invalid(&field, name, validation::dns_label(name, false)));
    }
    let key = text(term, &["topologyKey"]);
    let key_field = format!("{field}.topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(&key_field, "can not be empty"));
    }
    errors.extend(check::invalid(&key_field, key, validation::label_key(key)));
    errors
}

/// How evenly pods spread.
pub(super) fn spread(spec: &Value, field: &str) -> Vec<FieldError> {
    let constraints = list(spec, &["topologySpreadConstraints"]);
    let mut errors = Vec::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let field = format!("{field}.topologySpreadConstraints[{index}]");
        errors.extend(one_spread(constraint, &constraints[index + 1..], &field));
    }
    errors
}

const POSITIVE: &str = "must be greater than 0";

fn one_spread(constraint: &Value, later: &[Value], field: &str) -> Vec<FieldError> {
    let skew = number(constraint, &["maxSkew"]).unwrap_or(0);
    let mut errors = Vec::new();
    if skew <= 0 {
        let field = format!("{field}.maxSkew");
        errors.push(FieldError::invalid(field, skew, POSITIVE));
    }
    let why = "can not be empty";
    errors.extend(require::given(constraint, "topologyKey", field, why));
    let (key, action) = (
        text(constraint, &["topologyKey"]),
        text(constraint, &["whenUnsatisfiable"]),
    );
    let actions = &["DoNotSchedule", "ScheduleAnyway"];
    errors.extend(check::one_of(&format!("{field}.whenUnsatisfiable"), action, actions));
    let same = |other: &Value| text(other, &["topologyKey"]) == key && text(other, &["whenUnsatisfiable"]) == action;
    if later.iter().any(same) {
        let field = format!("{field}.{{topologyKey, whenUnsatisfiable}}");
        errors.push(FieldError::duplicate(field, format!("{{{key}, {action}}}")));
    }
    errors.extend(domains(constraint, action, field));
    for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        errors.extend(require::known(constraint, key, field, &["Honor", "Ignore"]));
    }
    let selector = at(constraint, &["labelSelector"]);
    errors.extend(check::label_selector(selector, &format!("{field}.labelSelector")));
    errors
}

fn domains(constraint: &Value, action: &str, field: &str) -> Vec<FieldError> {
    let Some(domains) = number(constraint, &["minDomains"]) else {
        return Vec::new();
    };
    let field = format!("{field}.minDomains");
    let mut errors = Vec::new();
    if domains <= 0 {
        errors.push(FieldError::invalid(&field, domains, POSITIVE));
    }
    if action != "DoNotSchedule" {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(FieldError::invalid(field, domains, why));
    }
    errors
}
