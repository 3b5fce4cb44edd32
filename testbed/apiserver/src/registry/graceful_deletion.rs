//! Kinds whose deletion begins long before it ends: Namespaces and CustomResourceDefinitions are
//! marked first, emptied by a controller, and only then removed.

use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::delete::gc_finalizers;
use super::{admission, commit, served};
use crate::admission::{self as policy, Request};
use crate::call::{Call, Outcome};
use crate::crd::lifecycle;
use crate::server::ApiServer;
use crate::storage::Key;

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
        let mut object = Value::clone(&served(resource, &stored));
        check_preconditions(call, &object)?;
        admission::delete(call, &key.name)?;
        policy::validate(server, &Request::delete(call, &object))?;
        let answer = |object: Arc<Value>| Outcome::Object {
            code: 200,
            object,
            warnings: Vec::new(),
        };
        if object::is_terminating(&object) {
            return Ok(answer(object.into()));
        }
        let now = server.clock().now_seconds();
        if is_namespace(resource) {
            object::set_or_remove(&mut object, "deletionTimestamp", Some(now.into()));
            begin_namespace(call, &mut object);
        } else {
            object = lifecycle::mark_deleted(&object, &now);
        }
        if call.options.dry_run {
            return Ok(answer(object.into()));
        }
        if let Ok(written) = commit::put(server, call, key, Some(&stored), object)? {
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
            let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
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
    let finalizers = gc_finalizers(call, object);
    object::set_finalizers(object, &finalizers);
}
