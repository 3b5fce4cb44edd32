//! Kinds whose deletion begins long before it ends: Namespaces and CustomResourceDefinitions are
//! marked first, emptied by a controller, and only then removed.

use serde_json::{Value, json};

use super::{admission, commit, served};
use crate::call::{Call, Outcome};
use crate::object;
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::store::Key;

/// Keeps a CustomResourceDefinition until its objects are gone.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "namespaces"
}

fn is_crd(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
}

/// Whether this deletion is only a beginning, or cannot end yet.
pub(super) fn applies(resource: &Resource, live: &Value) -> bool {
    let begun = object::is_terminating(live);
    if is_namespace(resource) {
        let waiting = live.pointer("/spec/finalizers").and_then(Value::as_array);
        return !begun || waiting.is_some_and(|waiting| !waiting.is_empty());
    }
    is_crd(resource) && !begun
}

/// Marks the object, or answers with it as it is when it is marked already.
pub(super) fn delete(server: &ApiServer, call: &Call, key: &Key) -> Result<Outcome, ApiError> {
    let resource = &call.resource;
    loop {
        let Some(stored) = server.store().get(key) else {
            return Err(ApiError::not_found(&resource.group_resource(), &key.name));
        };
        let mut object = served(resource, &stored);
        check_preconditions(call, &object)?;
        admission::delete(call, &key.name)?;
        let answer = |object| Outcome::Object {
            code: 200,
            object,
            warnings: Vec::new(),
        };
        if object::is_terminating(&object) {
            return Ok(answer(object));
        }
        let now = server.clock().now_seconds();
        object::set_or_remove(&mut object, "deletionTimestamp", Some(now.as_str().into()));
        if is_namespace(resource) {
            begin_namespace(call, &mut object);
        } else {
            begin_crd(&mut object, &now);
        }
        if call.options.dry_run {
            return Ok(answer(object));
        }
        if let Ok(written) = commit::put(server, call, key, Some(&stored), &object)? {
            return Ok(answer(served(resource, &written)));
        }
    }
}

fn check_preconditions(call: &Call, live: &Value) -> Result<(), ApiError> {
    let delete = &call.options.delete;
    let checks = [
        ("UID", delete.uid.as_deref(), object::uid(live)),
        (
            "ResourceVersion",
            delete.resource_version.as_deref(),
            object::resource_version(live),
        ),
    ];
    for (what, wanted, found) in checks {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            return Err(ApiError::conflict(
                &call.resource.group_resource(),
                object::name(live),
                &why,
            ));
        }
    }
    Ok(())
}

fn begin_namespace(call: &Call, object: &mut Value) {
    object["status"]["phase"] = "Terminating".into();
    let orphan = call.options.delete.propagation_policy.as_deref() == Some("Orphan");
    let mut finalizers: Vec<String> = object::finalizers(object)
        .into_iter()
        .filter(|f| !matches!(*f, "orphan" | "foregroundDeletion"))
        .map(str::to_owned)
        .collect();
    finalizers.extend(orphan.then(|| "orphan".to_owned()));
    object::set_finalizers(object, &finalizers);
}

fn begin_crd(object: &mut Value, now: &str) {
    let mut finalizers: Vec<String> = object::finalizers(object)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if !finalizers.iter().any(|f| f == CRD_CLEANUP) {
        finalizers.push(CRD_CLEANUP.to_owned());
    }
    object::set_finalizers(object, &finalizers);
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    set_condition(object, condition);
}

/// Replaces or adds a condition of `status.conditions`.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list
        .iter_mut()
        .find(|c| c.get("type") == condition.get("type"))
    {
        Some(there) => *there = condition,
        None => list.push(condition),
    }
}
