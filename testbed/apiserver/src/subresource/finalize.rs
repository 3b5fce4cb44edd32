//! `PUT /finalize` of a namespace: sets `spec.finalizers` and nothing else, and removes a
//! terminating namespace that waits for nobody any more.

use aplomb_apimachinery::json;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use crate::admission::{self, Request};
use crate::call::Call;
use crate::registry::check_name;
use crate::server::{ApiServer, key_of};

/// Carries out the call.
///
/// # Errors
/// What the server answers instead of the namespace.
pub fn handle(server: &ApiServer, call: &Call) -> Result<Value, ApiError> {
    let resource = &call.resource;
    let name = call.name.as_deref().unwrap_or_default();
    let body = json::parse(&call.body).map_err(ApiError::bad_request)?.value;
    check_name(call, &body)?;
    let key = key_of(&resource.storage, None, name);
    let _alone = server.writing();
    let missing = || ApiError::not_found(&resource.group_resource(), name);
    let current = server.store().get(&key).ok_or_else(missing)?;
    let version = object::resource_version(&body);
    if !version.is_empty() && version != object::resource_version(&current) {
        return Err(ApiError::modified(&resource.group_resource(), name));
    }
    let finalizers = body.pointer("/spec/finalizers").and_then(Value::as_array).cloned();
    let mut finalized = Value::clone(&current);
    let waits = finalizers.as_ref().is_some_and(|list| !list.is_empty());
    match finalizers.filter(|_| waits) {
        Some(list) => finalized["spec"]["finalizers"] = list.into(),
        None => finalized["spec"] = Value::Object(serde_json::Map::new()),
    }
    let request = Request::update(call, &finalized, &current);
    admission::validate(server, &request.through("finalize", "v1", "Namespace"))?;
    let gone = object::is_terminating(&finalized) && !waits && object::finalizers(&finalized).is_empty();
    let answer = finalized.clone();
    let moved = || ApiError::modified(&resource.group_resource(), name);
    let next = (!gone).then_some(finalized);
    let stored = server.store().commit(&key, Some(&current), next).map_err(|_| moved())?;
    Ok(if gone { answer } else { Value::clone(&stored) })
}
