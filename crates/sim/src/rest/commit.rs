//! The last step of every write: what the store itself refuses, what must be unique, the write.

use std::sync::Arc;

use serde_json::Value;

use super::peculiar::Peculiarity;
use crate::call::Call;
use crate::object;
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::store::{Key, Moved};

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
    object: &Value,
) -> Result<Result<Arc<Value>, Moved>, ApiError> {
    let strategy = &call.resource.strategy;
    let _alone = server.writing();
    let mut object = object.clone();
    object::set_or_remove(&mut object, "resourceVersion", None);
    if Peculiarity::of(&call.resource).allocates {
        let peers: Vec<Arc<Value>> = server
            .store()
            .snapshot(&key.resource)
            .objects
            .into_values()
            .collect();
        let old = old.map(|old| strategy.from_storage(Value::clone(old)));
        strategy.allocate(&mut object, old.as_ref(), &peers)?;
    }
    let stored = strategy.to_storage(object);
    if too_large(&stored) {
        return Err(ApiError::new(500, "", "etcdserver: request is too large"));
    }
    Ok(server.store().commit(key, old, Some(stored)))
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
