//! Jobs: defaults, rules and printed columns.

use aplomb_apimachinery::field::{FieldError, go_quote};
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::validation;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::behavior::KindBehavior;
use super::super::pods::validate_template;
use super::super::pods::warnings;
use super::super::print::{age, between, containers, count, name, selector_or_none};
use super::super::value::{at, default_to, has, items_mut, list, members, number, set, text};
use super::super::{check, shown};
use super::template_warnings;
use super::{default_template, job_policy, picks, selector_stays, template_not_picked};

const CONTROLLER_UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const JOB_NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
/// Who manages a job has no longer name.
const MAX_MANAGER: usize = 63;
const INDEXED: &str = "requires indexed completion mode";

/// How jobs behave.
pub(in super::super) const JOB: KindBehavior = KindBehavior {
    default,
    default_stored: Some(take_labels),
    prepare_create: |job| {
        if at(job, &["spec", "manualSelector"]) != true {
            generate_selector(job);
        }
    },
    validate: |job| validate(job, true),
    validate_update: update,
    validates_updates: false,
    generation: &[&["spec"]],
    warnings: warnings::workload,
    update_warnings: template_warnings,
    unknown_label: |field| format!("field label {} not supported for Job", go_quote(field)),
    selectable: |job| {
        let succeeded = count(job, &["status", "succeeded"]).to_string();
        vec![("status.successful".to_owned(), succeeded)]
    },
    cells,
    ..KindBehavior::PLAIN
};

fn default(job: &mut Value) {
    default_template(job);
    take_labels(job);
    let Some(spec) = job.get_mut("spec") else {
        return;
    };
    if !has(spec, &["completions"]) && !has(spec, &["parallelism"]) {
        spec["completions"] = json!(1);
    }
    default_to(spec, "parallelism", 1);
    let limit = if has(spec, &["backoffLimitPerIndex"]) {
        i32::MAX
    } else {
        6
    };
    default_to(spec, "backoffLimit", limit);
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    let replacement = if has(spec, &["podFailurePolicy"]) {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default_to(spec, "podReplacementPolicy", replacement);
    default_to(spec, "manualSelector", false);
    default_failure_policy(spec);
}

/// A job without labels has those of its template.
fn take_labels(job: &mut Value) {
    let labels = at(job, &["spec", "template", "metadata", "labels"]);
    if labels.is_object() && members(job, &["metadata", "labels"]).next().is_none() {
        set(job, &["metadata", "labels"], labels.clone());
    }
}

/// Patterns of a failure policy ask for true conditions unless they say otherwise.
pub(super) fn default_failure_policy(spec: &mut Value) {
    for rule in items_mut(spec, &["podFailurePolicy", "rules"]) {
        for pattern in items_mut(rule, &["onPodConditions"]) {
            default_to(pattern, "status", "True");
        }
    }
}

/// A job finds its Pods by its own identity.
fn generate_selector(job: &mut Value) {
    let labels = ["metadata", "labels"];
    // The server's object shares one map of labels with its template when it took them from there.
    let template_labels = ["spec", "template", "metadata", "labels"];
    let shared = has(job, &labels) && at(job, &labels) == at(job, &template_labels);
    let name = Value::from(text(job, &["metadata", "name"]));
    let uid = at(job, &["metadata", "uid"]).clone();
    for (keys, value) in [(JOB_NAME, &name), (CONTROLLER_UID, &uid)] {
        for key in keys {
            let path = ["spec", "template", "metadata", "labels", key];
            if !has(job, &path) {
                set(job, &path, value.clone());
            }
        }
    }
    if shared {
        let all = at(job, &template_labels).clone();
        set(job, &labels, all);
    }
    let path = ["spec", "selector", "matchLabels", CONTROLLER_UID[1]];
    if !has(job, &path) {
        set(job, &path, uid);
    }
}

/// What is wrong with a job; `prefixed` when its template must have the labels with a domain, too.
fn validate(job: &Value, prefixed: bool) -> Vec<FieldError> {
    let mut errors = generated_selector(job, prefixed);
    errors.extend(spec_and_selector(at(job, &["spec"])));
    let indexed = text(job, &["spec", "completionMode"]) == "Indexed";
    let completions = number(job, &["spec", "completions"]).unwrap_or(0);
    let name = text(job, &["metadata", "name"]);
    let last = format!("{name}-{}", completions - 1);
    if indexed && completions > 0 && !validation::dns_label(&last, false).is_empty() {
        let why = format!("will not able to create pod with invalid DNS label: {last}");
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    errors
}

fn generated_selector(job: &Value, prefixed: bool) -> Vec<FieldError> {
    let selector = at(job, &["spec", "selector"]);
    if at(job, &["spec", "manualSelector"]) == true || selector.is_null() {
        return Vec::new();
    }
    let uid = at(job, &["metadata", "uid"]);
    let name = &Value::from(text(job, &["metadata", "name"]));
    let expected = [
        (CONTROLLER_UID[0], uid),
        (JOB_NAME[0], name),
        (CONTROLLER_UID[1], uid),
        (JOB_NAME[1], name),
    ];
    let labels = at(job, &["spec", "template", "metadata", "labels"]);
    let needed = expected.iter().filter(|(key, _)| prefixed || !key.contains('/'));
    let mut errors: Vec<FieldError> = needed
        .filter_map(|(key, value)| generated_label(labels, key, value))
        .collect();
    let own: Value = expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).clone()))
        .collect();
    if check::label_selector(selector, "").is_empty() && !picks(selector, &own) {
        let (shown, why) = (shown::selector(selector), "`selector` not auto-generated");
        errors.push(shown::invalid("spec.selector", &shown, why));
    }
    errors
}

/// Whether the template has a label that the server gave it.
fn generated_label(labels: &Value, key: &str, value: &Value) -> Option<FieldError> {
    let field = format!("spec.template.metadata.labels[{key}]");
    let why = format!("must be '{}'", value.as_str().unwrap_or(""));
    match at(labels, &[key]) {
        Value::Null => Some(FieldError::required(field, why)),
        found if found != value => Some(shown::invalid(field, &labels.to_string(), &why)),
        _ => None,
    }
}

fn spec_and_selector(spec: &Value) -> Vec<FieldError> {
    let mut errors = self::spec(spec, "spec");
    let selector = at(spec, &["selector"]);
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let wrong = check::label_selector(selector, "spec.selector");
    let labels = at(spec, &["template", "metadata", "labels"]);
    let picked = !wrong.is_empty() || picks(selector, labels);
    errors.extend(wrong);
    if !picked {
        errors.push(template_not_picked(labels, "spec.template"));
    }
    errors
}

/// What is wrong with a job's spec, its selector aside.
pub(super) fn spec(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.extend(check::nonnegative(spec, &[key], &format!("{field}.{key}")));
    }
    if has(spec, &["maxFailedIndexes"]) && !has(spec, &["backoffLimitPerIndex"]) {
        let why = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(format!("{field}.backoffLimitPerIndex"), why));
    }
    errors.extend(managed_by(spec, field));
    errors.extend(completion_mode(spec, field));
    if has(spec, &["podFailurePolicy"]) {
        errors.extend(job_policy::failure(spec, field));
    }
    if has(spec, &["successPolicy"]) {
        errors.extend(job_policy::success(spec, field));
    }
    errors.extend(replacement(spec, field));
    errors.extend(validate_template(at(spec, &["template"]), &format!("{field}.template")));
    errors.extend(restart_policy(spec, &format!("{field}.template.spec.restartPolicy")));
    errors
}

fn managed_by(spec: &Value, field: &str) -> Vec<FieldError> {
    let Some(manager) = at(spec, &["managedBy"]).as_str() else {
        return Vec::new();
    };
    let field = format!("{field}.managedBy");
    let mut errors = validation::domain_prefixed_path(manager, &field);
    if manager.len() > MAX_MANAGER {
        errors.push(FieldError::too_long(field, MAX_MANAGER));
    }
    errors
}

fn replacement(spec: &Value, field: &str) -> Vec<FieldError> {
    let Some(policy) = at(spec, &["podReplacementPolicy"]).as_str() else {
        return Vec::new();
    };
    let allowed: &[&str] = match has(spec, &["podFailurePolicy"]) {
        true => &["Failed"],
        false => &["Failed", "TerminatingOrFailed"],
    };
    check::one_of(&format!("{field}.podReplacementPolicy"), policy, allowed)
}

fn completion_mode(spec: &Value, field: &str) -> Vec<FieldError> {
    let mode = text(spec, &["completionMode"]);
    let mut errors = Vec::new();
    if !mode.is_empty() {
        let field = format!("{field}.completionMode");
        errors.extend(check::one_of(&field, mode, &["NonIndexed", "Indexed"]));
    }
    if mode == "Indexed" {
        errors.extend(indexed(spec, field));
    } else if mode.is_empty() || mode == "NonIndexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            let wrong = |value| FieldError::invalid(format!("{field}.{key}"), value, INDEXED);
            errors.extend(number(spec, &[key]).map(wrong));
        }
    }
    errors
}

fn indexed(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let completions = number(spec, &["completions"]);
    if !has(spec, &["completions"]) {
        let why = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{field}.completions"), why));
    }
    let parallelism = number(spec, &["parallelism"]).unwrap_or(0);
    if parallelism > 100_000 {
        let why = "must be less than or equal to 100000 when completion mode is Indexed";
        let field = format!("{field}.parallelism");
        errors.push(FieldError::invalid(field, parallelism, why));
    }
    let most = number(spec, &["maxFailedIndexes"]);
    if let Some((most, _)) = most.zip(completions).filter(|(most, all)| most > all) {
        let why = "must be less than or equal to completions";
        let field = format!("{field}.maxFailedIndexes");
        errors.push(FieldError::invalid(field, most, why));
    }
    errors
}

fn restart_policy(spec: &Value, field: &str) -> Option<FieldError> {
    match text(spec, &["template", "spec", "restartPolicy"]) {
        "Always" | "" => {
            let why = "valid values: \"OnFailure\", \"Never\"";
            Some(FieldError::required(field, why))
        }
        "OnFailure" if has(spec, &["podFailurePolicy"]) => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            Some(FieldError::invalid(field, "OnFailure", why))
        }
        "OnFailure" | "Never" => None,
        other => Some(FieldError::not_supported(field, other, &["OnFailure", "Never"])),
    }
}

fn update(new: &Value, old: &Value, part: Part) -> Vec<FieldError> {
    if part == Part::Status {
        return super::job_status::update(new, old);
    }
    let labels = at(old, &["spec", "template", "metadata", "labels"]);
    let prefixed = has(labels, &[JOB_NAME[1]]) && has(labels, &[CONTROLLER_UID[1]]);
    let mut errors = validate(new, prefixed);
    errors.extend(spec_and_selector(at(new, &["spec"])));
    let indexed = text(new, &["spec", "completionMode"]) == "Indexed";
    let (now, before) = (at(new, &["spec", "completions"]), at(old, &["spec", "completions"]));
    if !indexed {
        errors.extend(check::immutable(new, old, &["spec", "completions"]));
    } else if now != before && !now.is_null() && now != at(new, &["spec", "parallelism"]) {
        let why = "can only be modified in tandem with spec.parallelism";
        errors.push(shown::invalid("spec.completions", &now.to_string(), why));
    }
    errors.extend(selector_stays(new, old));
    errors.extend(template_stays(new, old));
    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.extend(check::immutable(new, old, &["spec", key]));
    }
    errors
}

/// The template of a job is fixed; while the job waits with no Pod left, where its Pods may run and
/// what they may use is not.
fn template_stays(new: &Value, old: &Value) -> Option<FieldError> {
    let mut before = at(old, &["spec", "template"]).clone();
    let template = at(new, &["spec", "template"]);
    let why = "field is immutable";
    if !changeable(old) {
        let shown = || shown::invalid("spec.template", &template.to_string(), why);
        return (before != *template).then(shown);
    }
    for path in [
        &["spec", "affinity", "nodeAffinity"][..],
        &["spec", "nodeSelector"],
        &["spec", "tolerations"],
        &["spec", "schedulingGates"],
    ] {
        super::super::value::restore(&mut before, template, path);
    }
    for key in ["containers", "initContainers"] {
        let now = list(template, &["spec", key]);
        if now.len() == list(&before, &["spec", key]).len() {
            for (container, now) in items_mut(&mut before, &["spec", key]).zip(now) {
                if text(container, &["name"]) == text(now, &["name"]) {
                    super::super::value::restore(container, now, &["resources"]);
                }
            }
        }
    }
    let (before, now) = (at(&before, &["spec"]), at(template, &["spec"]));
    (before != now).then(|| shown::invalid("spec.template.spec", &now.to_string(), why))
}

/// Whether a job waits: not started yet, or stopped for now.
fn changeable(job: &Value) -> bool {
    let stopped = super::job_status::met(job, "Suspended");
    at(job, &["spec", "suspend"]) == true
        && (stopped || !has(job, &["status", "startTime"]))
        && number(job, &["status", "active"]).unwrap_or(0) == 0
}

fn cells(job: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = number(job, &["status", "succeeded"]).unwrap_or(0);
    let parallelism = number(job, &["spec", "parallelism"]).unwrap_or(0);
    let completions = match number(job, &["spec", "completions"]) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let start = text(job, &["status", "startTime"]);
    let end = text(job, &["status", "completionTime"]);
    let duration = if start.is_empty() {
        String::new()
    } else {
        between(start, end, now)
    };
    let [names, images] = containers(job);
    vec![
        name(job),
        state(job).into(),
        completions.into(),
        duration.into(),
        age(job, now),
        names,
        images,
        selector_or_none(at(job, &["spec", "selector"])).into(),
    ]
}

/// The word for the most final condition a job has.
fn state(job: &Value) -> &'static str {
    let met = |kind: &str| {
        list(job, &["status", "conditions"])
            .iter()
            .any(|c| text(c, &["type"]) == kind && text(c, &["status"]) == "True")
    };
    let met = |kinds: &[&'static str]| kinds.iter().copied().find(|kind| met(kind));
    let deleted = has(job, &["metadata", "deletionTimestamp"]).then_some("Terminating");
    met(&["Complete", "Failed"])
        .or(deleted)
        .or_else(|| met(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running")
}
