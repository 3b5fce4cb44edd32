//! Pod disruption budgets and network policies.

use std::net::IpAddr;

use aplomb_apimachinery::field::{ErrorType, FieldError};
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::check;
use super::print::{age, count, int_or_string, name, selector_or_none};
use super::require;
use super::shown;
use super::value::{at, default_to, has, items_mut, list, number, set, text};

/// How pod disruption budgets behave.
pub(super) const POD_DISRUPTION_BUDGET: KindBehavior = KindBehavior {
    validate: validate_budget,
    validate_update: validate_budget_status,
    name: validation::path_segment,
    unconditional: false,
    generation: &[&["spec"]],
    cells: budget_cells,
    ..KindBehavior::PLAIN
};

/// How network policies behave.
pub(super) const NETWORK_POLICY: KindBehavior = KindBehavior {
    default: default_network_policy,
    validate: validate_network_policy,
    generation: &[&["spec"]],
    cells: |policy, now| {
        vec![
            name(policy),
            selector_or_none(at(policy, &["spec", "podSelector"])).into(),
            age(policy, now),
        ]
    },
    ..KindBehavior::PLAIN
};

fn budget_cells(budget: &Value, now: Timestamp) -> Vec<Value> {
    let amount = |key: &str| -> Value {
        match at(budget, &["spec", key]) {
            Value::Null => "N/A".into(),
            value => int_or_string(value).into(),
        }
    };
    vec![
        name(budget),
        amount("minAvailable"),
        amount("maxUnavailable"),
        count(budget, &["status", "disruptionsAllowed"]),
        age(budget, now),
    ]
}

fn validate_budget(budget: &Value) -> Vec<FieldError> {
    let spec = at(budget, &["spec"]);
    let mut errors = Vec::new();
    if has(spec, &["minAvailable"]) && has(spec, &["maxUnavailable"]) {
        let shown = shown::object(&[
            ("MinAvailable", at(spec, &["minAvailable"]).to_string()),
            ("Selector", shown::selector(at(spec, &["selector"]))),
            ("MaxUnavailable", at(spec, &["maxUnavailable"]).to_string()),
            (
                "UnhealthyPodEvictionPolicy",
                at(spec, &["unhealthyPodEvictionPolicy"]).to_string(),
            ),
        ]);
        errors.push(shown::invalid(
            "spec",
            &shown,
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        let field = format!("spec.{key}");
        errors.extend(check::int_or_percent(at(spec, &[key]), &field));
        errors.extend(check::at_most_100_percent(at(spec, &[key]), &field));
    }
    errors.extend(check::label_selector(at(spec, &["selector"]), "spec.selector"));
    if has(spec, &["unhealthyPodEvictionPolicy"]) {
        let policy = text(spec, &["unhealthyPodEvictionPolicy"]);
        let allowed = &["AlwaysAllow", "IfHealthyBudget"];
        errors.extend(check::one_of("spec.unhealthyPodEvictionPolicy", policy, allowed));
    }
    errors
}

fn validate_budget_status(budget: &Value, _old: &Value, part: Part) -> Vec<FieldError> {
    if part != Part::Status {
        return Vec::new();
    }
    let mut errors = check::conditions(list(budget, &["status", "conditions"]), "status.conditions");
    for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        errors.extend(check::nonnegative(budget, &["status", key], &format!("status.{key}")));
    }
    errors
}

fn default_network_policy(policy: &mut Value) {
    for direction in ["ingress", "egress"] {
        for rule in items_mut(policy, &["spec", direction]) {
            for port in items_mut(rule, &["ports"]) {
                default_to(port, "protocol", "TCP");
            }
        }
    }
    if list(policy, &["spec", "policyTypes"]).is_empty() {
        let egress = !list(policy, &["spec", "egress"]).is_empty();
        let types = if egress {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        set(policy, &["spec", "policyTypes"], types);
    }
}

fn validate_network_policy(policy: &Value) -> Vec<FieldError> {
    let spec = at(policy, &["spec"]);
    let mut errors = check::label_selector(at(spec, &["podSelector"]), "spec.podSelector");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(spec, &[direction]).iter().enumerate() {
            let field = format!("spec.{direction}[{index}]");
            errors.extend(require::each(rule, "ports", &field, validate_port));
            errors.extend(require::each(rule, peers, &field, validate_peer));
        }
    }
    let types = list(spec, &["policyTypes"]);
    if types.len() > 2 {
        let shown = at(spec, &["policyTypes"]).to_string();
        errors.push(shown::invalid(
            "spec.policyTypes",
            &shown,
            "may not specify more than two policyTypes",
        ));
        return errors;
    }
    for (index, kind) in types.iter().enumerate() {
        let field = format!("spec.policyTypes[{index}]");
        errors.extend(check::one_of(
            &field,
            kind.as_str().unwrap_or(""),
            &["Ingress", "Egress"],
        ));
    }
    errors
}

fn validate_port(port: &Value, field: &str) -> Vec<FieldError> {
    let protocol = text(port, &["protocol"]);
    let mut errors = check::one_of(&format!("{field}.protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    let end = number(port, &["endPort"]);
    let end_field = format!("{field}.endPort");
    let port_field = format!("{field}.port");
    match at(port, &["port"]) {
        Value::Number(first) => {
            errors.extend(port_range(first.as_i64().unwrap_or(0), end, field));
        }
        Value::String(named) => {
            if let Some(end) = end {
                let why = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&end_field, end, why));
            }
            errors.extend(check::invalid(&port_field, named, validation::port_name(named)));
        }
        _ => errors.extend(
            end.map(|end| FieldError::invalid(&end_field, end, "may not be specified when `port` is not specified")),
        ),
    }
    errors
}

fn port_range(first: i64, end: Option<i64>, field: &str) -> Vec<FieldError> {
    let wrong = |key: &str, port: i64| {
        let field = format!("{field}.{key}");
        check::port_number(port).map(|why| FieldError::invalid(field, port, why))
    };
    let mut errors: Vec<FieldError> = wrong("port", first).into_iter().collect();
    if let Some(end) = end {
        if end < first {
            let why = "must be greater than or equal to `port`";
            errors.push(FieldError::invalid(format!("{field}.endPort"), first, why));
        }
        errors.extend(wrong("endPort", end));
    }
    errors
}

fn validate_peer(peer: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut peers = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if has(peer, &[key]) {
            peers += 1;
            errors.extend(check::label_selector(at(peer, &[key]), &format!("{field}.{key}")));
        }
    }
    let block = at(peer, &["ipBlock"]);
    if !block.is_null() {
        errors.extend(validate_ip_block(block, &format!("{field}.ipBlock")));
        if peers > 0 {
            errors.push(FieldError::forbidden(
                field,
                "may not specify both ipBlock and another peer",
            ));
        }
    } else if peers == 0 {
        errors.push(FieldError::required(field, "must specify a peer"));
    }
    errors
}

fn validate_ip_block(block: &Value, field: &str) -> Vec<FieldError> {
    let outer = text(block, &["cidr"]);
    if outer.is_empty() {
        return vec![FieldError::required(format!("{field}.cidr"), "")];
    }
    let mut errors = check::cidr(outer, &format!("{field}.cidr"));
    let Some(outer) = check::parse_cidr(outer) else {
        return errors;
    };
    for (index, inner) in list(block, &["except"]).iter().enumerate() {
        errors.extend(validate_except(
            inner.as_str().unwrap_or(""),
            outer,
            &format!("{field}.except[{index}]"),
        ));
    }
    errors
}

fn validate_except(value: &str, outer: (IpAddr, u8), field: &str) -> Vec<FieldError> {
    let mut errors = check::cidr(value, field);
    if check::parse_cidr(value).is_some_and(|inner| !check::is_strict_subset(inner, outer)) {
        let why = "must be a strict subset of `cidr`";
        errors.push(FieldError::new(ErrorType::Invalid, field, value.into(), why));
    }
    errors
}
