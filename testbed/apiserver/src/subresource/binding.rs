//! `pods/binding`: what a scheduler posts to give a Pod its node.

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::{Value, json};

use super::{condition, done};
use crate::call::{Call, Outcome};
use crate::registry;
use crate::server::{ApiServer, key_of};

/// Carries out a binding; `call.resource` is Binding, `pods` what it is about.
pub(super) fn bind(server: &ApiServer, call: &Call, pods: &Arc<Resource>) -> Result<Outcome, ApiError> {
    let (binding, warnings) = registry::posted(server, call)?;
    match carry_out(server, call, pods, &binding) {
        Ok(()) => Ok(done(warnings)),
        Err(error) => Err(error.after_warnings(warnings)),
    }
}

fn carry_out(server: &ApiServer, call: &Call, pods: &Arc<Resource>, binding: &Value) -> Result<(), ApiError> {
    let name = call.name.as_deref().unwrap_or(object::name(binding));
    if object::name(binding) != name {
        let why = "name in URL does not match name in Binding object";
        return Err(ApiError::bad_request(why));
    }
    check(binding)?;
    let key = key_of(&pods.storage, call.namespace.as_deref(), name);
    let whole = Call {
        resource: pods.clone(),
        ..call.clone()
    };
    loop {
        let missing = || ApiError::not_found(&pods.group_resource(), name);
        let stored = server.store().get(&key).ok_or_else(missing)?;
        check_preconditions(binding, &stored)?;
        let bound = assigned(&stored, binding, &server.clock().now_seconds())
            .map_err(|why| ApiError::conflict(&GroupResource::new("", "pods/binding"), name, &why))?;
        let dry = call.options.dry_run;
        if dry || registry::put(server, &whole, &key, &stored, bound)?.is_some() {
            return Ok(());
        }
    }
}

/// A malformed target is not blamed on the client.
fn check(binding: &Value) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let kind = object::text(&binding["target"], "kind");
    if !matches!(kind, "" | "Node") {
        let valid = ["Node", "<empty>"];
        errors.push(FieldError::not_supported("target.kind", kind, &valid));
    }
    if object::text(&binding["target"], "name").is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    let errors: Vec<String> = errors.iter().map(FieldError::message).collect();
    match errors.as_slice() {
        [] => Ok(()),
        [only] => Err(ApiError::new(500, "", only.clone())),
        all => Err(ApiError::new(500, "", format!("[{}]", all.join(", ")))),
    }
}

fn check_preconditions(binding: &Value, pod: &Value) -> Result<(), ApiError> {
    let parts = [
        ("UID", object::uid(binding), object::uid(pod)),
        (
            "ResourceVersion",
            object::resource_version(binding),
            object::resource_version(pod),
        ),
    ];
    let Some((what, stated, found)) = parts
        .into_iter()
        .find(|(_, stated, found)| !stated.is_empty() && stated != found)
    else {
        return Ok(());
    };
    let (namespace, name) = (object::namespace(pod), object::name(pod));
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {stated}, {what} in object meta: {found}"
    );
    Err(ApiError::conflict(&GroupResource::new("", "pods"), name, &why))
}

/// The Pod on its node, or why it cannot be there.
fn assigned(pod: &Value, binding: &Value, now: &str) -> Result<Value, String> {
    let name = object::name(pod);
    if object::is_terminating(pod) {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = object::text(&pod["spec"], "nodeName");
    if !node.is_empty() {
        let node = aplomb_apimachinery::field::go_quote(node);
        return Err(format!("pod {name} is already assigned to node {node}"));
    }
    let gates = pod["spec"]["schedulingGates"].as_array();
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut bound = pod.clone();
    bound["spec"]["nodeName"] = binding["target"]["name"].clone();
    for member in ["annotations", "labels"] {
        let stated = binding["metadata"][member].as_object();
        for (key, value) in stated.into_iter().flatten() {
            bound["metadata"][member][key.as_str()] = value.clone();
        }
    }
    if let Some(status) = bound["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    schedule(&mut bound, now);
    Ok(bound)
}

fn schedule(pod: &mut Value, now: &str) {
    let scheduled = condition(pod, "PodScheduled");
    let changed = scheduled["status"] != "True";
    let since = scheduled["lastTransitionTime"].clone();
    *scheduled = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": if changed { now.into() } else { since },
    });
}
