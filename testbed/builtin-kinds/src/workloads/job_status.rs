//! What a job's status may say: a finished job is one that started, stopped and says why.

use std::collections::BTreeSet;

use aplomb_apimachinery::field::FieldError;
use serde_json::Value;

use super::super::value::{at, has, list, number, text};
use super::super::{check, shown};
use super::job_indexes;

/// Pairs of conditions that exclude each other.
const EXCLUSIVE: [(&str, &str, &str); 4] = [
    (
        "Complete",
        "Failed",
        "cannot set Complete=True and Failed=true conditions",
    ),
    (
        "Complete",
        "FailureTarget",
        "cannot set Complete=True and FailureTarget=true conditions",
    ),
    (
        "SuccessCriteriaMet",
        "Failed",
        "cannot set SuccessCriteriaMet=True and Failed=true conditions",
    ),
    (
        "SuccessCriteriaMet",
        "FailureTarget",
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    ),
];

/// A change of the status.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.extend(check::nonnegative(new, &["status", key], &format!("status.{key}")));
    }
    errors.extend(uncounted(new));
    let moved = |kind: &str| met(new, kind) != met(old, kind);
    for (one, other, why) in &EXCLUSIVE[..2] {
        let both = met(new, one) && met(new, other);
        errors.extend((both && (moved(one) || moved(other))).then(|| condition(why)));
    }
    errors.extend(times(new, old));
    errors.extend(reasons(new, old));
    errors.extend(finished(new, old));
    errors.extend(indexes(new, old));
    errors.extend(pods_left(new, old));
    for (one, other, why) in &EXCLUSIVE[2..] {
        errors.extend((met(new, one) && met(new, other)).then(|| condition(why)));
    }
    if has(new, &["spec", "successPolicy"]) && met(new, "Complete") && !met(new, "SuccessCriteriaMet") {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.push(condition(why));
    }
    errors.extend(kept(new, old));
    errors
}

/// Pods that ended and are not counted yet: each is named once.
fn uncounted(job: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for key in ["succeeded", "failed"] {
        let pods = list(job, &["status", "uncountedTerminatedPods", key]);
        for (index, pod) in pods.iter().enumerate() {
            let uid = pod.as_str().unwrap_or("");
            let field = format!("status.uncountedTerminatedPods.{key}[{index}]");
            if uid.is_empty() {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(field, uid));
            }
        }
    }
    errors
}

/// Whether a condition is true.
pub(super) fn met(job: &Value, kind: &str) -> bool {
    said(job, kind, "True")
}

fn said(job: &Value, kind: &str, status: &str) -> bool {
    list(job, &["status", "conditions"])
        .iter()
        .any(|c| text(c, &["type"]) == kind && text(c, &["status"]) == status)
}

fn is_finished(job: &Value) -> bool {
    met(job, "Complete") || met(job, "Failed")
}

/// A refusal of the conditions, which the server does not print.
fn condition(why: &str) -> FieldError {
    FieldError {
        value: None,
        ..FieldError::invalid("status.conditions", "", why)
    }
}

fn changed(new: &Value, old: &Value, key: &str) -> bool {
    at(new, &["status", key]) != at(old, &["status", key])
}

fn times(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let end = text(new, &["status", "completionTime"]);
    let start = text(new, &["status", "startTime"]);
    let complete = met(new, "Complete");
    let field = "status.completionTime";
    if complete != met(old, "Complete") || changed(new, old, "completionTime") {
        if !complete && !end.is_empty() {
            let why = "cannot set completionTime when there is no Complete=True condition";
            errors.push(FieldError::invalid(field, end, why));
        }
        if complete && end.is_empty() {
            let why = "completionTime is required for Complete jobs";
            errors.push(FieldError::required(field, why));
        }
    }
    // Times in this one form sort as text.
    let judged = changed(new, old, "startTime") || changed(new, old, "completionTime");
    if judged && !start.is_empty() && !end.is_empty() && end < start {
        let why = "must be equal to or after `startTime`";
        errors.push(FieldError::invalid(field, end, why));
    }
    errors
}

fn reasons(new: &Value, old: &Value) -> Vec<FieldError> {
    let moved = |kind: &str| met(new, kind) != met(old, kind);
    let mut errors = Vec::new();
    let judged = moved("Failed") || changed(new, old, "failedIndexes");
    if judged && met(new, "Failed") && !met(new, "FailureTarget") {
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.push(condition(why));
    }
    let judged = moved("Complete") || moved("SuccessCriteriaMet");
    if judged && met(new, "Complete") && !met(new, "SuccessCriteriaMet") {
        let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.push(condition(why));
    }
    errors
}

fn finished(new: &Value, old: &Value) -> Vec<FieldError> {
    if !is_finished(new) {
        return Vec::new();
    }
    let moved = |key: &str| !is_finished(old) || changed(new, old, key);
    let mut errors = Vec::new();
    let active = number(new, &["status", "active"]).unwrap_or(0);
    if moved("active") && active > 0 {
        let why = "active>0 is invalid for finished job";
        errors.push(FieldError::invalid("status.active", active, why));
    }
    let waits = at(new, &["spec", "suspend"]) == true && at(new, &["spec", "completions"]) == 0;
    if moved("startTime") && !waits && !has(new, &["status", "startTime"]) {
        let why = "startTime is required for finished job";
        errors.push(FieldError::required("status.startTime", why));
    }
    let uncounted = at(new, &["status", "uncountedTerminatedPods"]);
    let some = |key: &str| !list(uncounted, &[key]).is_empty();
    if moved("uncountedTerminatedPods") && (some("succeeded") || some("failed")) {
        let shown = shown::object(&[
            ("Succeeded", at(uncounted, &["succeeded"]).to_string()),
            ("Failed", at(uncounted, &["failed"]).to_string()),
        ]);
        let (field, why) = ("status.uncountedTerminatedPods", "must be empty for finished job");
        errors.push(shown::invalid(field, &shown, why));
    }
    errors
}

/// Pods that end although the job has, and Pods that are ready but not there.
fn pods_left(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let count = |key: &str| number(new, &["status", key]).unwrap_or(0);
    let moved = is_finished(new) != is_finished(old) || changed(new, old, "terminating");
    if moved && is_finished(new) && count("terminating") > 0 {
        let (field, why) = ("status.terminating", "terminating>0 is invalid for finished job");
        errors.push(FieldError::invalid(field, count("terminating"), why));
    }
    let moved = changed(new, old, "ready") || changed(new, old, "active");
    if moved && has(new, &["status", "ready"]) && count("ready") > count("active") {
        let why = "cannot set more ready pods than active";
        errors.push(FieldError::invalid("status.ready", count("ready"), why));
    }
    errors
}

fn indexes(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let completions = number(new, &["spec", "completions"]);
    let per_index = has(new, &["spec", "backoffLimitPerIndex"]);
    let [completed, failed] = ["completedIndexes", "failedIndexes"].map(|key| {
        let moved = changed(new, old, key);
        (key, text(new, &["status", key]), moved)
    });
    let fails = has(new, &["status", "failedIndexes"]);
    for (key, value, moved) in [completed, failed] {
        let read = key == "completedIndexes" || (per_index && fails);
        if let (true, true, Some(all)) = (moved, read, completions)
            && let Err(why) = job_indexes::count(value, all)
        {
            let why = format!("error parsing {key}: {why}");
            errors.push(FieldError::invalid(format!("status.{key}"), value, why));
        }
    }
    let indexed = text(new, &["spec", "completionMode"]) == "Indexed";
    if completed.2 && !completed.1.is_empty() && !indexed {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        let field = "status.completedIndexes";
        errors.push(FieldError::invalid(field, completed.1, why));
    }
    let field = "status.failedIndexes";
    if failed.2 && fails && !per_index {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(FieldError::invalid(field, failed.1, why));
    }
    if let (true, Some(all)) = (fails && (completed.2 || failed.2), completions)
        && let Some(why) = job_indexes::overlap(completed.1, failed.1, all)
    {
        errors.push(FieldError::invalid(field, failed.1, why));
    }
    errors
}

/// What once was said stays said.
fn kept(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if met(old, kind) && !met(new, kind) {
            errors.push(condition(&format!("cannot disable the terminal {kind}=True condition")));
        }
    }
    let count = |job: &Value, key: &str| number(job, &["status", key]).unwrap_or(0);
    // A job whose Pods are all that it asks for may be made smaller.
    let scales = text(new, &["spec", "completionMode"]) == "Indexed"
        && at(new, &["spec", "completions"]) == at(new, &["spec", "parallelism"]);
    for key in ["failed", "succeeded"] {
        if count(new, key) < count(old, key) && !(scales && key == "succeeded") {
            let why = format!("cannot decrease the {key} counter");
            errors.push(FieldError::invalid(format!("status.{key}"), count(new, key), why));
        }
    }
    errors.extend(kept_times(new, old));
    if met(old, "SuccessCriteriaMet") && !met(new, "SuccessCriteriaMet") {
        errors.push(condition("cannot disable the SuccessCriteriaMet=True condition"));
    }
    if met(old, "Complete") && !met(old, "SuccessCriteriaMet") && met(new, "SuccessCriteriaMet") {
        errors.push(condition(
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        ));
    }
    errors
}

fn kept_times(new: &Value, old: &Value) -> Vec<FieldError> {
    let time = |key: &str| at(new, &["status", key]).clone();
    let mut errors = Vec::new();
    if has(new, &["status", "completionTime"])
        && has(old, &["status", "completionTime"])
        && changed(new, old, "completionTime")
    {
        let (field, why) = ("status.completionTime", "field is immutable");
        errors.push(FieldError::invalid(field, time("completionTime"), why));
    }
    let resumes = met(old, "Suspended") && said(new, "Suspended", "False");
    let running = at(new, &["spec", "suspend"]) != true && !resumes;
    if has(old, &["status", "startTime"]) && changed(new, old, "startTime") && running {
        let why = "field is immutable for unsuspended job once set";
        let field = "status.startTime";
        errors.push(FieldError::invalid(field, time("startTime"), why));
    }
    errors
}
