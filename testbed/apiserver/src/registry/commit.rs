//! The last step of every write: what the store itself refuses, what must be unique, the write.

use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::served;
use super::validation::ResourceQuirk;
use crate::call::{Call, Verb};
use crate::server::ApiServer;
use crate::storage::{Key, Moved};

/// etcd takes no larger requests.
const ETCD_LIMIT: usize = 1_572_864;

/// Writes the new state of an object (in the served version) if it is still at `old`.
///
/// The outer result is a refusal, the inner one a race the caller may run again.
pub(super) fn put(
    server: &ApiServer,
    call: &Call,
    key: &Key,
    old: Option<&Arc<Value>>,
    mut object: Value,
) -> Result<Result<Arc<Value>, Moved>, ApiError> {
    let strategy = &call.resource.strategy;
    let _alone = server.writing();
    object::set_or_remove(&mut object, "resourceVersion", None);
    object::set_or_remove(&mut object, "selfLink", None);
    if allocates(call) {
        let live = old.map(|old| served(&call.resource, old));
        allocate(server, call, live.as_deref(), &mut object)?;
    }
    object::settle_numbers(&mut object);
    let stored = strategy.to_storage(object);
    if too_large(&stored) {
        return Err(ApiError::new(500, "", "etcdserver: request is too large"));
    }
    Ok(server.store().commit(key, old, Some(stored)))
}

/// Gives out what must be unique among all objects of the resource. Done before an object is
/// prepared and checked, as the server does, and again when nobody else can write.
pub(super) fn allocate(
    server: &ApiServer,
    call: &Call,
    old: Option<&Value>,
    object: &mut Value,
) -> Result<(), ApiError> {
    if !allocates(call) {
        return Ok(());
    }
    let snapshot = server.store().snapshot(&call.resource.storage);
    let peers: Vec<Arc<Value>> = snapshot.objects.into_values().collect();
    call.resource
        .strategy
        .allocate(object, old, &peers, call.options.dry_run)
}

fn allocates(call: &Call) -> bool {
    let writes = matches!(call.verb, Verb::Create | Verb::Update | Verb::Patch);
    writes && call.part == Part::Main && ResourceQuirk::of(&call.resource).allocates
}

/// Whether the object does not fit into one request to etcd. Only large objects are measured.
fn too_large(object: &Value) -> bool {
    fn weight(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
            Value::Object(map) => {
                map.iter()
                    .map(|(key, value)| key.len() + 4 + weight(value))
                    .sum::<usize>()
                    + 2
            }
            Value::Number(_) => 8,
            Value::Bool(_) | Value::Null => 5,
        }
    }
    weight(object) > ETCD_LIMIT
}
