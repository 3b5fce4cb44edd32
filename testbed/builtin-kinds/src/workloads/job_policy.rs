//! The failure and success policies of a job.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::validation;
use serde_json::Value;

use super::super::value::{at, has, list, number, text};
use super::super::{check, require, shown};
use super::job_indexes;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// A policy of either kind has no more rules.
const MAX_RULES: usize = 20;
/// A list of indexes in a rule is no longer, in bytes.
const MAX_INDEXES: usize = 64 * 1024;

/// What is wrong with the success policy of a job.
pub(super) fn success(spec: &Value, field: &str) -> Vec<FieldError> {
    let (policy, field) = (at(spec, &["successPolicy"]), format!("{field}.successPolicy"));
    if text(spec, &["completionMode"]) != "Indexed" {
        let why = "requires indexed completion mode";
        return vec![shown::invalid(field, &shown_success(policy), why)];
    }
    let rules = list(policy, &["rules"]);
    let at_rules = format!("{field}.rules");
    let mut errors = Vec::new();
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&at_rules, why));
    }
    errors.extend(too_many(rules, &at_rules));
    let completions = number(spec, &["completions"]).unwrap_or(0);
    errors.extend(require::each(policy, "rules", &field, |rule, field| {
        success_rule(completions, rule, field)
    }));
    errors
}

/// A success policy as Go prints it.
fn shown_success(policy: &Value) -> String {
    let rule = |rule: &Value| {
        let [indexes, count] = ["succeededIndexes", "succeededCount"].map(|key| at(rule, &[key]).to_string());
        shown::object(&[("SucceededIndexes", indexes), ("SucceededCount", count)])
    };
    let rules: Vec<String> = list(policy, &["rules"]).iter().map(rule).collect();
    let rules = match has(policy, &["rules"]) {
        true => format!("[{}]", rules.join(",")),
        false => "null".to_owned(),
    };
    shown::object(&[("Rules", rules)])
}

fn too_many(rules: &[Value], field: &str) -> Option<FieldError> {
    let count = rules.len();
    (count > MAX_RULES).then(|| FieldError::too_many(field, count, MAX_RULES))
}

fn success_rule(completions: i64, rule: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let wanted = number(rule, &["succeededCount"]);
    let indexes = at(rule, &["succeededIndexes"]).as_str();
    if wanted.is_none() && indexes.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(field, why));
    }
    let mut named = 0;
    if let Some(indexes) = indexes {
        let field = format!("{field}.succeededIndexes");
        if indexes.len() > MAX_INDEXES {
            errors.push(FieldError::too_long(&field, MAX_INDEXES));
        }
        match job_indexes::count(indexes, completions) {
            Ok(count) => named = count,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                errors.push(FieldError::invalid(&field, indexes, why));
            }
        }
    }
    let Some(wanted) = wanted else { return errors };
    let count = format!("{field}.succeededCount");
    errors.extend(check::nonnegative(rule, &["succeededCount"], &count));
    let mut more = |most: i64, of: &str| {
        let why = format!("must be less than or equal to {most} (the number of {of})");
        errors.extend((wanted > most).then(|| FieldError::invalid(&count, wanted, why)));
    };
    more(completions, "specified completions");
    if indexes.is_some() {
        more(named, "indexes in the specified succeededIndexes field");
    }
    errors
}

/// What is wrong with the failure policy of a job.
pub(super) fn failure(spec: &Value, field: &str) -> Vec<FieldError> {
    let field = format!("{field}.podFailurePolicy.rules");
    let rules = list(spec, &["podFailurePolicy", "rules"]);
    let mut errors: Vec<FieldError> = too_many(rules, &field).into_iter().collect();
    for (index, rule) in rules.iter().enumerate() {
        errors.extend(failure_rule(spec, rule, &format!("{field}[{index}]")));
    }
    errors
}

/// A word out of a set, in the way these rules ask for one.
fn check_word(object: &Value, key: &str, field: &str, allowed: &[&str]) -> Vec<FieldError> {
    let field = format!("{field}.{key}");
    match text(object, &[key]) {
        "" => {
            let shown: Vec<String> = allowed.iter().map(|word| format!("\"{word}\"")).collect();
            let why = format!("valid values: [{}]", shown.join(" "));
            vec![FieldError::required(field, why)]
        }
        value => check::one_of(&field, value, allowed),
    }
}

fn failure_rule(spec: &Value, rule: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = check_word(rule, "action", field, &ACTIONS);
    if text(rule, &["action"]) == "FailIndex" && !has(spec, &["backoffLimitPerIndex"]) {
        let why = "requires the backoffLimitPerIndex to be set";
        errors.push(FieldError::invalid(format!("{field}.action"), "FailIndex", why));
    }
    let codes = at(rule, &["onExitCodes"]);
    if !codes.is_null() {
        errors.extend(exit_codes(spec, codes, &format!("{field}.onExitCodes")));
    }
    let conditions = list(rule, &["onPodConditions"]);
    for (index, pattern) in conditions.iter().enumerate() {
        let field = format!("{field}.onPodConditions[{index}]");
        let kind = text(pattern, &["type"]);
        errors.extend(check::invalid(
            &format!("{field}.type"),
            kind,
            validation::label_key(kind),
        ));
        errors.extend(check_word(pattern, "status", &field, &STATUSES));
    }
    let both = !codes.is_null() && !conditions.is_empty();
    if both || (codes.is_null() && conditions.is_empty()) {
        let why = if both {
            "specifying both OnExitCodes and OnPodConditions is not supported"
        } else {
            "specifying one of OnExitCodes and OnPodConditions is required"
        };
        errors.push(FieldError {
            value: None,
            ..FieldError::invalid(field, "", why)
        });
    }
    errors
}

fn exit_codes(spec: &Value, codes: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = check_word(codes, "operator", field, &OPERATORS);
    let container = at(codes, &["containerName"]).as_str();
    if let Some(name) = container.filter(|name| !has_container(spec, name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        let field = format!("{field}.containerName");
        errors.push(FieldError::invalid(field, name, why));
    }
    errors.extend(exit_values(codes, &format!("{field}.values")));
    errors
}

fn has_container(spec: &Value, name: &str) -> bool {
    let pods = at(spec, &["template", "spec"]);
    let init = list(pods, &["initContainers"]);
    let mut all = list(pods, &["containers"]).iter().chain(init);
    all.any(|container| text(container, &["name"]) == name)
}

fn exit_values(codes: &Value, field: &str) -> Vec<FieldError> {
    let values = list(codes, &["values"]).iter();
    let values: Vec<i64> = values.filter_map(Value::as_i64).collect();
    let all = at(codes, &["values"]).to_string();
    let mut errors = Vec::new();
    if values.is_empty() {
        let why = "at least one value is required";
        errors.push(shown::invalid(field, &all, why));
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if text(codes, &["operator"]) == "In" && *value == 0 {
            let why = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(&field, 0, why));
        }
        if !seen.insert(*value) {
            errors.push(FieldError::duplicate(field, *value));
        }
    }
    if !values.is_sorted() {
        errors.push(shown::invalid(field, &all, "must be ordered"));
    }
    errors
}
