//! What the server writes before it answers anyone: each object unless it is there already.

use aplomb_apimachinery::object;
use aplomb_builtin_kinds as kinds;
use serde_json::Value;

use super::{apply, create};
use crate::call::{Call, PatchType, Verb};
use crate::server::{ApiServer, key_of};

/// Where the server says it listens; nothing in the box connects to it.
const ADVERTISED: (&str, u16) = ("192.0.2.1", 6443);

/// Makes what every cluster has: its namespaces and the service of the server itself.
pub(crate) fn bootstrap(server: &ApiServer) {
    for body in kinds::bootstrap(ADVERTISED.0, ADVERTISED.1) {
        make(server, &body, None);
    }
}

/// Makes the rest of what a server makes for itself: roles, priority classes, flow schemas.
pub(crate) fn cluster(server: &ApiServer) {
    let now = server.clock().now_seconds();
    for own in kinds::cluster(ADVERTISED.0, ADVERTISED.1, &now) {
        if make(server, &own.body, Some(own.manager))
            && let Some((manager, status)) = own.status
        {
            say(server, manager, &status);
        }
    }
}

fn call_for(server: &ApiServer, verb: Verb, body: &Value) -> Option<Call> {
    let said = |key: &str| body[key].as_str().unwrap_or_default();
    let resource = server.resource_of_kind(said("apiVersion"), said("kind"))?;
    let namespaced = resource.namespaced;
    let mut call = Call::new(verb, resource).body(body);
    call.namespace = namespaced.then(|| object::namespace(body).to_owned());
    Some(call)
}

/// Whether the object had to be made.
fn make(server: &ApiServer, body: &Value, manager: Option<&str>) -> bool {
    let Some(mut call) = call_for(server, Verb::Create, body) else {
        return false;
    };
    let name = object::name(body);
    let key = key_of(&call.resource.storage, call.namespace.as_deref(), name);
    if server.store().get(&key).is_some() {
        return false;
    }
    call.options.field_manager = manager.map(str::to_owned);
    create::create(server, &call).expect("what every cluster has is valid");
    true
}

/// Applies a status in the name of the part of the server that keeps it.
fn say(server: &ApiServer, manager: &str, status: &Value) {
    let Some(call) = call_for(server, Verb::Patch, status) else {
        return;
    };
    let mut call = call.patch(PatchType::Apply).status().name(object::name(status));
    call.options.field_manager = Some(manager.to_owned());
    apply::apply(server, &call).expect("what a server says of itself is valid");
}
