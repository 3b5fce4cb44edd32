//! The admission every server has: objects live in namespaces that exist and are not going away,
//! and a few namespaces may not be deleted.

use serde_json::{Value, json};

use crate::call::Call;
use crate::definitions;
use crate::object;
use crate::server::{ApiServer, key_of};
use crate::status::{ApiError, GroupResource};

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// The stored Namespace of a name.
fn namespace(server: &ApiServer, name: &str) -> Option<std::sync::Arc<Value>> {
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
    let Some(name) = call
        .namespace
        .as_deref()
        .filter(|_| call.resource.namespaced)
    else {
        return Ok(());
    };
    if server.any_version("", "namespaces").is_none() {
        return Ok(());
    }
    let Some(stored) = namespace(server, name) else {
        return Err(ApiError::not_found(&namespaces(), name));
    };
    if stored.pointer("/status/phase").and_then(Value::as_str) != Some("Terminating") {
        return Ok(());
    }
    let about = match object::name(object) {
        "" => object::meta_str(object, "generateName"),
        name => name,
    };
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let cause = json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {name} is being terminated"),
        "field": "metadata.namespace",
    });
    Err(
        ApiError::forbidden(&call.resource.group_resource(), about, &why)
            .with_detail("causes", json!([cause])),
    )
}

/// Refuses a change in a namespace that is not there.
pub(super) fn update(server: &ApiServer, call: &Call) -> Result<(), ApiError> {
    let Some(name) = call
        .namespace
        .as_deref()
        .filter(|_| call.resource.namespaced)
    else {
        return Ok(());
    };
    if server.any_version("", "namespaces").is_none() || namespace(server, name).is_some() {
        return Ok(());
    }
    Err(ApiError::not_found(&namespaces(), name))
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
