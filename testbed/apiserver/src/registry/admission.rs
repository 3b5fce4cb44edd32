//! The admission every server has: objects live in namespaces that exist and are not going away,
//! a few namespaces may not be deleted, what plugins fill in is filled in, and what they refuse refused.

use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_builtin_kinds as kinds;
use serde_json::{Value, json};

use crate::call::Call;
use crate::definitions;
use crate::server::{ApiServer, key_of};

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// The stored Namespace of a name.
fn namespace(server: &ApiServer, name: &str) -> Option<Arc<Value>> {
    server.store().get(&key_of(&namespaces(), None, name))
}

/// Refuses a creation in a namespace that is not there or on its way out, and of a custom resource
/// whose definition is on its way out.
pub(super) fn create(server: &ApiServer, call: &Call, object: &Value) -> Result<(), ApiError> {
    if call.resource.strategy.is_custom() && definitions::is_terminating(server, &call.resource) {
        let why = "create not allowed while custom resource definition is terminating";
        let resource = call.resource.group_resource();
        return Err(ApiError::forbidden(&resource, object::name(object), why));
    }
    let Some(name) = call.namespace.as_deref().filter(|_| call.resource.namespaced) else {
        return Ok(());
    };
    let Some(stored) = namespace(server, name) else {
        return missing(server, name);
    };
    if stored.pointer("/status/phase").and_then(Value::as_str) != Some("Terminating") {
        return Ok(());
    }
    let about = match object::name(object) {
        "" => object::meta_str(object, "generateName"),
        name => name,
    };
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let cause = json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {name} is being terminated"),
        "field": "metadata.namespace",
    });
    Err(ApiError::forbidden(&call.resource.group_resource(), about, &why).with_detail("causes", json!([cause])))
}

/// Lets the plugins every server runs fill in a new built-in object, or refuse it.
pub(super) fn fill(server: &ApiServer, call: &Call, object: &mut Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    if resource.strategy.is_custom() {
        return Ok(());
    }
    if resource.kind == "CertificateSigningRequest" {
        sign(call, object);
    }
    let peers = peers(server, call.namespace.as_deref());
    kinds::plugins::admit(&resource.kind, object, &peers).map_err(|why| {
        let name = object::name(object);
        ApiError::forbidden(&resource.group_resource(), name, &why)
    })
}

/// What plugins may look at beside an object: its namespace, and what is in none.
pub(super) fn peers<'a>(
    server: &'a ApiServer,
    namespace: Option<&'a str>,
) -> impl Fn(&str, &str) -> Vec<Arc<Value>> + 'a {
    let namespace = namespace.unwrap_or_default();
    move |group, plural| {
        let resource = GroupResource::new(group, plural);
        server.store().within(&resource, namespace)
    }
}

/// Lets the same plugins fill in what a change through a view asks for.
pub(super) fn refill(server: &ApiServer, call: &Call, view: &str, live: &Value, wanted: &mut Value) {
    if view == "resize" && !object::is_terminating(live) {
        let peers = peers(server, call.namespace.as_deref());
        kinds::plugins::fill_limits(wanted, &peers);
    }
}

/// Lets the plugins every server runs judge a built-in object as it would be stored. Containers can
/// only be changed by a resize, so other changes of a pod are not looked at.
pub(super) fn judge(
    server: &ApiServer,
    call: &Call,
    subresource: &str,
    object: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    let resource = &call.resource;
    let looks = match resource.kind.as_str() {
        "Pod" if live.is_some() => subresource == "resize",
        "Pod" | "PersistentVolumeClaim" => subresource.is_empty(),
        _ => false,
    };
    let leaves = live.is_some_and(object::is_terminating);
    if !looks || leaves || resource.strategy.is_custom() {
        return Ok(());
    }
    let peers = peers(server, call.namespace.as_deref());
    kinds::plugins::judge(&resource.kind, object, &peers).map_err(|why| {
        let name = object::name(object);
        ApiError::forbidden(&resource.group_resource(), name, &why)
    })
}

/// A signing request says who asks, and nobody else can say it.
fn sign(call: &Call, request: &mut Value) {
    let user = &call.user;
    let extra = (!user.extra.is_empty()).then(|| json!(user.extra));
    let parts = [
        ("username", Some(json!(user.name))),
        ("uid", Some(json!(user.uid)).filter(|_| !user.uid.is_empty())),
        ("groups", Some(json!(user.groups)).filter(|_| !user.groups.is_empty())),
        ("extra", extra),
    ];
    let Some(spec) = request["spec"].as_object_mut() else {
        return;
    };
    for (key, value) in parts {
        match value {
            Some(value) => spec.insert(key.to_owned(), value),
            None => spec.remove(key),
        };
    }
}

/// Refuses a change in a namespace that is not there.
pub(super) fn update(server: &ApiServer, call: &Call) -> Result<(), ApiError> {
    let Some(name) = call.namespace.as_deref().filter(|_| call.resource.namespaced) else {
        return Ok(());
    };
    match namespace(server, name) {
        Some(_) => Ok(()),
        None => missing(server, name),
    }
}

/// Only where namespaces are served has one to be there.
fn missing(server: &ApiServer, name: &str) -> Result<(), ApiError> {
    match server.any_version("", "namespaces") {
        Some(_) => Err(ApiError::not_found(&namespaces(), name)),
        None => Ok(()),
    }
}

/// Refuses the deletion of the namespaces every cluster has.
pub(super) fn delete(call: &Call, name: &str) -> Result<(), ApiError> {
    let resource = call.resource.group_resource();
    if resource == namespaces() && IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden(
            &resource,
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}
