//! Custom resource definitions: from a stored definition to a served resource, and back.
//!
//! What a definition says and how its status reads is decided in `crd`; here is only when, and
//! what the server does about it. A new definition is served a moment after it is stored, as on the
//! real server, so that clients which do not wait for it are found out.

use std::sync::Arc;
use std::time::Duration;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::GroupResource;
use aplomb_structured_merge::Writer;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::call::{Call, Verb};
use crate::crd::resources_of;
use crate::crd::{is_true_condition, lifecycle};
use crate::registry;
use crate::server::ApiServer;
use crate::storage::Key;

/// How long the server waits before it looks again whether the last instance is gone.
const CLEANUP_POLL: Duration = Duration::from_secs(5);
/// Groups of the Kubernetes project need an approval, stated in this annotation.
const APPROVAL: &str = "api-approved.kubernetes.io";

fn key(name: &str) -> Key {
    let resource = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
    Key {
        resource,
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// Whether the definition of a resource is being deleted.
pub(crate) fn is_terminating(server: &ApiServer, resource: &Resource) -> bool {
    let name = resource.storage.resource.clone() + "." + &resource.storage.group;
    server
        .store()
        .get(&key(&name))
        .is_some_and(|crd| object::is_terminating(&crd))
}

/// Whether a call may have changed a definition.
pub(crate) fn concerns(call: &Call) -> bool {
    call.resource.storage == key("").resource
        && !call.options.dry_run
        && !matches!(call.verb, Verb::Get | Verb::List | Verb::Watch)
}

/// Follows a change of a definition: at once what is served already, in a moment the rest.
pub(crate) fn changed(server: &ApiServer, name: &str) {
    let Some(crd) = server.store().get(&key(name)) else {
        return;
    };
    if is_true_condition(&crd, "Established") && !object::is_terminating(&crd) {
        serve(server, &crd);
    }
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let (server, name) = (server.clone(), name.to_owned());
    runtime.spawn(async move {
        tokio::time::sleep(server.crd_delay()).await;
        settle(&server, &name).await;
    });
}

/// Serves again what stored definitions describe, and goes on with those that were not done.
pub(crate) fn resume(server: &ApiServer) {
    for name in server.store().snapshot(&key("").resource).objects.into_keys() {
        changed(server, &name);
    }
}

/// Does for a definition what the server's controllers do, until there is nothing left to do.
async fn settle(server: &ApiServer, name: &str) {
    while let Some(crd) = server.store().get(&key(name)) {
        if object::is_terminating(&crd) {
            if !object::finalizers(&crd).contains(&lifecycle::CLEANUP_FINALIZER) {
                return;
            }
            if clean_up(server, name).await {
                return;
            }
            tokio::time::sleep(CLEANUP_POLL).await;
            continue;
        }
        let now = server.clock().now_seconds();
        let next = approve(&crd, &now)
            .or_else(|| {
                let peers = peers(server, name);
                let peers: Vec<&Value> = peers.iter().map(AsRef::as_ref).collect();
                lifecycle::accept_names(&crd, &peers, &now)
            })
            .or_else(|| lifecycle::establish(&crd, &now));
        let Some(next) = next else {
            serve(server, &crd);
            return;
        };
        // Somebody else's write in between only means another look.
        let next = by_the_server(server, &crd, next);
        drop(server.store().commit(&key(name), Some(&crd), Some(next)));
    }
}

/// The change with the server as the owner of what it writes into the status.
fn by_the_server(server: &ApiServer, crd: &Value, next: Value) -> Value {
    let Some(resource) = server.any_version(&key("").resource.group, &key("").resource.resource) else {
        return next;
    };
    let writer = Writer {
        manager: "kube-apiserver",
        api_version: &resource.api_version(),
        subresource: "status",
        time: &server.clock().now_seconds(),
    };
    server.field_manager(&resource).update(Some(crd), next, &writer)
}

fn peers(server: &ApiServer, name: &str) -> Vec<Arc<Value>> {
    let all = server.store().snapshot(&key(name).resource).objects;
    all.into_iter()
        .filter(|(other, _)| other != name)
        .map(|(_, crd)| crd)
        .collect()
}

/// Serves what an established definition describes, and nothing else of its resource.
fn serve(server: &ApiServer, crd: &Value) {
    if !is_true_condition(crd, "Established") {
        return;
    }
    let resource = GroupResource::new(
        crd["spec"]["group"].as_str().unwrap_or_default(),
        crd["status"]["acceptedNames"]["plural"].as_str().unwrap_or_default(),
    );
    let edition = format!("{} {}", object::uid(crd), object::generation(crd));
    server.serve_edition(&resource, &edition, resources_of(crd));
}

/// Deletes the instances; `true` when the definition could go with them.
async fn clean_up(server: &ApiServer, name: &str) -> bool {
    let step = |change: &dyn Fn(&Value, &str) -> Value| {
        let crd = server.store().get(&key(name))?;
        let next = change(&crd, &server.clock().now_seconds());
        let next = Some(by_the_server(server, &crd, next)).filter(|next| !object::finalizers(next).is_empty());
        server.store().commit(&key(name), Some(&crd), next).ok()
    };
    step(&lifecycle::deletion_in_progress);
    let Some(crd) = server.store().get(&key(name)) else {
        return true;
    };
    let storage = GroupResource::new(
        crd["spec"]["group"].as_str().unwrap_or_default(),
        crd["spec"]["names"]["plural"].as_str().unwrap_or_default(),
    );
    delete_instances(server, &storage).await;
    if !server.store().snapshot(&storage).objects.is_empty() {
        return false;
    }
    if step(&lifecycle::deletion_completed).is_none() {
        return false;
    }
    server.unserve(&storage.group, &storage.resource);
    server.store().forget(&storage);
    true
}

async fn delete_instances(server: &ApiServer, storage: &GroupResource) {
    let Some(resource) = server.any_version(&storage.group, &storage.resource) else {
        return;
    };
    for instance in server.store().snapshot(storage).objects.into_values() {
        let mut call = Call::new(Verb::Delete, resource.clone()).name(object::name(&instance));
        if resource.namespaced {
            call = call.namespace(object::namespace(&instance));
        }
        // An instance that is gone already is as good as deleted.
        drop(registry::handle(server, call).await);
    }
}

/// What the annotation says: the status, reason and message of the condition.
fn approval(crd: &Value) -> (&'static str, &'static str, String) {
    let stated = crd["metadata"]["annotations"][APPROVAL].as_str();
    match stated.unwrap_or_default() {
        "" => {
            let message = format!(
                "protected groups must have approval annotation \"{APPROVAL}\", see https://github.com/kubernetes/enhancements/pull/1111"
            );
            ("False", "MissingAnnotation", message)
        }
        stated if stated.starts_with("unapproved") => {
            let message = format!("not approved: {}", aplomb_apimachinery::field::go_quote(stated));
            ("False", "UnapprovedAnnotation", message)
        }
        stated => ("True", "ApprovedAnnotation", format!("approved in {stated}")),
    }
}

/// Says whether a group of the Kubernetes project may be used.
fn approve(crd: &Value, now: &str) -> Option<Value> {
    const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group == *own || group.ends_with(&format!(".{own}")));
    if !protected {
        return None;
    }
    let (status, reason, message) = approval(crd);
    let conditions = crd["status"]["conditions"].as_array();
    let settled = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == KIND && condition["status"] == status && condition["message"] == message);
    if settled {
        return None;
    }
    let mut changed = crd.clone();
    let condition = json!({
        "type": KIND,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    });
    set_condition(&mut changed, condition);
    Some(changed)
}

/// Replaces or adds a condition of `status.conditions`.
fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|c| c.get("type") == condition.get("type")) {
        Some(there) => *there = condition,
        None => list.push(condition),
    }
}

#[cfg(test)]
mod tests;
