//! The parameters a binding gives to its policy.

use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_builtin_kinds as kinds;
use serde_json::Value;

use super::policy::{Binding, Policy};
use crate::server::ApiServer;

/// The resource of a policy's parameters, if it has any.
///
/// # Errors
/// The kind is not served.
pub(super) fn resource(server: &ApiServer, policy: &Policy) -> Result<Option<Arc<Resource>>, String> {
    let Some((api_version, kind)) = &policy.param_kind else {
        return Ok(None);
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version.as_str()));
    match server.resource_of_kind(api_version, kind) {
        Some(resource) => Ok(Some(resource)),
        None => Err(format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
        )),
    }
}

/// Everything the policy is to be evaluated with, one after the other; nothing at all when nothing
/// was found and that is allowed.
///
/// # Errors
/// Why there is nothing to evaluate with.
pub(super) fn collect(
    server: &ApiServer,
    resource: Option<&Arc<Resource>>,
    binding: &Binding,
    namespace: &str,
) -> Result<Vec<Value>, String> {
    let (Some(resource), Some(wanted)) = (resource, &binding.param_ref) else {
        return Ok(vec![Value::Null]);
    };
    let place = place(resource, wanted, namespace)?;
    let snapshot = server.store().snapshot(&resource.storage);
    let found: Vec<Value> = snapshot
        .objects
        .values()
        .filter(|stored| object::namespace(stored) == place && is_wanted(wanted, stored))
        .map(|stored| resource.strategy.from_storage(Value::clone(stored)))
        .collect();
    if found.is_empty() && wanted["parameterNotFoundAction"] == "Deny" {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(why.to_owned());
    }
    Ok(found)
}

fn place<'a>(resource: &Resource, wanted: &'a Value, namespace: &'a str) -> Result<&'a str, String> {
    let stated = object::text(wanted, "namespace");
    match (resource.namespaced, stated, namespace) {
        (true, "", "") => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned())
        }
        (true, "", namespace) => Ok(namespace),
        (true, stated, _) => Ok(stated),
        (false, "", _) => Ok(""),
        (false, ..) => Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()),
    }
}

fn is_wanted(wanted: &Value, stored: &Value) -> bool {
    match object::text(wanted, "name") {
        "" => {
            let labels = stored.pointer("/metadata/labels").unwrap_or(&Value::Null);
            kinds::selects(&wanted["selector"], labels)
        }
        name => name == object::name(stored),
    }
}
