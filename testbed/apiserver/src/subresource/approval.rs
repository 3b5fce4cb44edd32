//! `certificatesigningrequests/approval`: an administrator's word on a request for a certificate.

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Resource, View};
use aplomb_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::whole::{judged, take_stated};

/// The conditions of a request.
#[derive(Debug)]
pub(super) struct Approval {
    pub(super) parent: Arc<Resource>,
}

const FIELD: &str = "status.conditions";

impl View for Approval {
    fn name(&self) -> &'static str {
        "approval"
    }

    fn parent(&self) -> &Arc<Resource> {
        &self.parent
    }

    fn take_back(&self, object: &Value, shown: Value, now: &str) -> Result<Value, ApiError> {
        let mut changed = object.clone();
        if !changed["status"].is_object() {
            changed["status"] = json!({});
        }
        let stated = shown["status"]["conditions"].clone();
        changed["status"]["conditions"] = stamped(stated, &object["status"]["conditions"], now);
        take_stated(&mut changed, &shown);
        let errors = errors(list(&changed), list(object));
        judged(&self.parent, changed, &errors)
    }
}

fn list(object: &Value) -> &[Value] {
    let conditions = object.pointer("/status/conditions");
    conditions.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The conditions with the times that were left out: of the same condition before, or now.
fn stamped(mut conditions: Value, before: &Value, now: &str) -> Value {
    let old = before.as_array().cloned().unwrap_or_default();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.into();
        }
        if !condition["lastTransitionTime"].is_null() {
            continue;
        }
        let same = old
            .iter()
            .find(|other| other["type"] == condition["type"] && other["status"] == condition["status"]);
        let since = same.map(|same| same["lastTransitionTime"].clone());
        condition["lastTransitionTime"] = since.filter(|since| !since.is_null()).unwrap_or_else(|| now.into());
    }
    conditions
}

fn errors(conditions: &[Value], old: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for kind in ["Approved", "Denied", "Failed"] {
        errors.extend(removed(kind, conditions, old));
    }
    let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
    for (index, condition) in conditions.iter().enumerate() {
        let field = |member: &str| format!("{FIELD}[{index}].{member}");
        let kind = object::text(condition, "type");
        if kind.is_empty() {
            errors.push(FieldError::required(field("type"), ""));
        }
        let status = object::text(condition, "status");
        let final_word = matches!(kind, "Approved" | "Denied" | "Failed");
        let valid: &[&str] = if final_word {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        if status.is_empty() {
            errors.push(FieldError::required(field("status"), ""));
        } else if !valid.contains(&status) {
            errors.push(FieldError::not_supported(field("status"), status, valid));
        }
    }
    if has("Approved") && has("Denied") {
        let why = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid(FIELD, "Denied", why));
    }
    errors
}

/// A final word stands: as many of it as before, at least.
fn removed(kind: &str, conditions: &[Value], old: &[Value]) -> Option<FieldError> {
    let count = |list: &[Value]| list.iter().filter(|one| one["type"] == kind).count();
    (count(conditions) < count(old)).then(|| {
        let why = format!(
            "updates may not remove a condition of type {}",
            aplomb_apimachinery::field::go_quote(kind)
        );
        FieldError::forbidden(FIELD, why)
    })
}
