//! Deployments and replica sets.

pub(super) mod controller;
pub(super) mod cron;
pub(super) mod daemon;
pub(super) mod job;
mod job_indexes;
mod job_policy;
mod job_status;
mod schedule;
pub(super) mod stateful;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::resource::Part;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::KindBehavior;
use super::check;
use super::pods::defaults::pod_spec;
use super::pods::warnings;
use super::print::{age, containers, count, name, selector, selector_or_none};
use super::shown;
use super::value::{at, default_to, number, text};

/// How deployments behave.
pub(super) const DEPLOYMENT: KindBehavior = KindBehavior {
    default: default_deployment,
    validate: validate_deployment,
    validate_update: deployment_update,
    validates_updates: false,
    generation: &[&["spec"], &["metadata", "annotations"]],
    fixed_by_status: &[&["spec"], &["metadata", "labels"]],
    cells: deployment_cells,
    warnings: warnings::workload,
    update_warnings: template_warnings,
    ..KindBehavior::PLAIN
};

/// How replica sets behave.
pub(super) const REPLICA_SET: KindBehavior = KindBehavior {
    default: default_replica_set,
    validate: validate_replica_set,
    validate_update: replica_set_update,
    validates_updates: false,
    generation: &[&["spec"]],
    cells: replica_set_cells,
    warnings: warnings::workload,
    update_warnings: template_warnings,
    ..KindBehavior::PLAIN
};

/// A template that did not change is not warned about again.
fn template_warnings(new: &Value, old: &Value) -> Vec<String> {
    let generation = ["metadata", "generation"];
    if at(new, &generation) == at(old, &generation) {
        Vec::new()
    } else {
        warnings::template(new)
    }
}

fn default_template(object: &mut Value) {
    if let Some(spec) = object.pointer_mut("/spec/template/spec") {
        pod_spec(spec);
    }
}

fn default_deployment(deployment: &mut Value) {
    default_template(deployment);
    let Some(spec) = deployment.get_mut("spec") else {
        return;
    };
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "progressDeadlineSeconds", 600);
    let Some(strategy) = spec.get_mut("strategy") else {
        return;
    };
    default_to(strategy, "type", "RollingUpdate");
    if text(strategy, &["type"]) == "RollingUpdate" {
        default_to(strategy, "rollingUpdate", json!({}));
        default_to(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        default_to(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
}

fn default_replica_set(set: &mut Value) {
    default_template(set);
    if let Some(spec) = set.get_mut("spec") {
        default_to(spec, "replicas", 1);
    }
}

fn validate_deployment(deployment: &Value) -> Vec<FieldError> {
    let spec = at(deployment, &["spec"]);
    let mut errors = check::nonnegative(spec, &["replicas"], "spec.replicas");
    errors.extend(selector_and_template(spec));
    errors.extend(validate_strategy(at(spec, &["strategy"])));
    errors.extend(check::nonnegative(spec, &["minReadySeconds"], "spec.minReadySeconds"));
    errors.extend(check::nonnegative(
        spec,
        &["revisionHistoryLimit"],
        "spec.revisionHistoryLimit",
    ));
    errors.extend(check::nonnegative(
        spec,
        &["progressDeadlineSeconds"],
        "spec.progressDeadlineSeconds",
    ));
    let deadline = number(spec, &["progressDeadlineSeconds"]).unwrap_or(600);
    if deadline <= number(spec, &["minReadySeconds"]).unwrap_or(0) {
        let why = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid("spec.progressDeadlineSeconds", deadline, why));
    }
    errors
}

fn validate_replica_set(set: &Value) -> Vec<FieldError> {
    let spec = at(set, &["spec"]);
    let mut errors = check::nonnegative(spec, &["replicas"], "spec.replicas");
    errors.extend(check::nonnegative(spec, &["minReadySeconds"], "spec.minReadySeconds"));
    errors.extend(selector_and_template(spec));
    errors
}

fn selector_and_template(spec: &Value) -> Vec<FieldError> {
    let wanted = at(spec, &["selector"]);
    let mut errors = selector_given(wanted, "deployment");
    let usable = check::label_selector(wanted, "").is_empty();
    if !usable {
        errors.push(shown::invalid(
            "spec.selector",
            &shown::selector(wanted),
            "invalid label selector",
        ));
        return errors;
    }
    let labels = at(spec, &["template", "metadata", "labels"]);
    if !picks(wanted, labels) {
        errors.push(template_not_picked(labels, "spec.template"));
    }
    errors.extend(super::pods::running_template(
        at(spec, &["template"]),
        "spec.template",
        "ReplicaSet",
    ));
    errors
}

/// Whether a selector picks these labels; none at all picks nothing, an empty one everything.
fn picks(wanted: &Value, labels: &Value) -> bool {
    !wanted.is_null() && (selector(wanted).is_empty() || check::selects(wanted, labels))
}

/// A selector that is there and is not empty.
fn selector_given(wanted: &Value, kind: &str) -> Vec<FieldError> {
    if wanted.is_null() {
        return vec![FieldError::required("spec.selector", "")];
    }
    let mut errors = check::label_selector(wanted, "spec.selector");
    errors.extend(selector_not_empty(wanted, kind));
    errors
}

fn selector_not_empty(wanted: &Value, kind: &str) -> Option<FieldError> {
    let why = format!("empty selector is invalid for {kind}");
    (!wanted.is_null() && selector(wanted).is_empty())
        .then(|| shown::invalid("spec.selector", &shown::selector(wanted), &why))
}

/// A template the selector does not pick.
fn template_not_picked(labels: &Value, field: &str) -> FieldError {
    let why = "`selector` does not match template `labels`";
    shown::invalid(format!("{field}.metadata.labels"), &labels.to_string(), why)
}

fn validate_strategy(strategy: &Value) -> Vec<FieldError> {
    let rolling = at(strategy, &["rollingUpdate"]);
    let field = "spec.strategy.rollingUpdate";
    match text(strategy, &["type"]) {
        "Recreate" if !rolling.is_null() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            vec![FieldError::forbidden(field, why)]
        }
        "Recreate" => Vec::new(),
        "RollingUpdate" => validate_rolling_update(rolling, field),
        other => {
            let shown = shown::object(&[
                ("Type", Value::from(other).to_string()),
                ("RollingUpdate", shown_rolling(rolling)),
            ]);
            vec![shown::not_supported(
                "spec.strategy",
                &shown,
                &["Recreate", "RollingUpdate"],
            )]
        }
    }
}

fn shown_rolling(rolling: &Value) -> String {
    if rolling.is_null() {
        return "null".to_owned();
    }
    let part = |key: &str| match at(rolling, &[key]) {
        Value::Null => "0".to_owned(),
        value => value.to_string(),
    };
    shown::object(&[
        ("MaxUnavailable", part("maxUnavailable")),
        ("MaxSurge", part("maxSurge")),
    ])
}

fn validate_rolling_update(rolling: &Value, field: &str) -> Vec<FieldError> {
    let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
    let unavailable_field = format!("{field}.maxUnavailable");
    let mut errors = check::int_or_percent(unavailable, &unavailable_field);
    errors.extend(check::int_or_percent(surge, &format!("{field}.maxSurge")));
    let amount = |value: &Value| check::percent_value(value).or_else(|| value.as_i64()).unwrap_or(0);
    if amount(unavailable) == 0 && amount(surge) == 0 {
        let why = "may not be 0 when `maxSurge` is 0";
        errors.push(shown::invalid(&unavailable_field, &unavailable.to_string(), why));
    }
    errors.extend(check::at_most_100_percent(unavailable, &unavailable_field));
    errors
}

fn selector_stays(new: &Value, old: &Value) -> Vec<FieldError> {
    let path = ["spec", "selector"];
    if at(new, &path) == at(old, &path) {
        return Vec::new();
    }
    vec![shown::invalid(
        "spec.selector",
        &shown::selector(at(new, &path)),
        "field is immutable",
    )]
}

fn deployment_update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Main {
        let mut errors = validate_deployment(new);
        errors.extend(selector_stays(new, old));
        return errors;
    }
    let mut errors = replica_counts(
        new,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
    );
    errors.extend(collisions_decremented(new, old));
    errors
}

fn collisions_decremented(new: &Value, old: &Value) -> Option<FieldError> {
    let collisions = |object: &Value| number(object, &["status", "collisionCount"]);
    let now = collisions(new).unwrap_or(0);
    let why = "cannot be decremented";
    (now < collisions(old)?).then(|| FieldError::invalid("status.collisionCount", now, why))
}

fn replica_set_update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Main {
        let mut errors = validate_replica_set(new);
        errors.extend(selector_stays(new, old));
        return errors;
    }
    replica_counts(
        new,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    )
}

/// Counts are not negative, and no part is more than the whole.
fn replica_counts(object: &Value, counts: &[&str], parts: &[&str]) -> Vec<FieldError> {
    let value = |key: &str| number(object, &["status", key]).unwrap_or(0);
    let mut errors = Vec::new();
    for key in counts {
        errors.extend(check::nonnegative(object, &["status", key], &format!("status.{key}")));
    }
    for key in parts.iter().filter(|key| value(key) > value("replicas")) {
        let why = "cannot be greater than status.replicas";
        errors.push(FieldError::invalid(format!("status.{key}"), value(key), why));
    }
    if value("availableReplicas") > value("readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        errors.push(FieldError::invalid(
            "status.availableReplicas",
            value("availableReplicas"),
            why,
        ));
    }
    errors
}

fn deployment_cells(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let replicas = |path: &[&str]| number(deployment, path).unwrap_or(0);
    let ready = format!(
        "{}/{}",
        replicas(&["status", "readyReplicas"]),
        replicas(&["spec", "replicas"])
    );
    let [names, images] = containers(deployment);
    vec![
        name(deployment),
        ready.into(),
        count(deployment, &["status", "updatedReplicas"]),
        count(deployment, &["status", "availableReplicas"]),
        age(deployment, now),
        names,
        images,
        selector(at(deployment, &["spec", "selector"])).into(),
    ]
}

fn replica_set_cells(set: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(set);
    vec![
        name(set),
        count(set, &["spec", "replicas"]),
        count(set, &["status", "replicas"]),
        count(set, &["status", "readyReplicas"]),
        age(set, now),
        names,
        images,
        selector_or_none(at(set, &["spec", "selector"])).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_outside_the_selector_is_refused() {
        let deployment = json!({ "spec": { "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "b" } }, "spec": {} } } });
        let errors = selector_and_template(at(&deployment, &["spec"]));
        assert_eq!(
            errors[0].message(),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not match template `labels`"
        );
    }
}
