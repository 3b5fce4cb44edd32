//! Admission: who may object to a write once it is known what would be stored.
//!
//! `registry` asks here after an object has been prepared and checked and before it is stored, as the
//! server does. The plugins are PodSecurity, where asked for OwnerReferencesPermissionEnforcement,
//! and ValidatingAdmissionPolicy, in this order, which is the server's; mutating policies and
//! webhooks are not evaluated. Nothing here writes.

mod authorizer;
mod dispatch;
mod evaluate;
mod matching;
mod notes;
mod owners;
mod params;
mod pod_security;
mod policy;
mod registry;
mod request;
mod variables;

pub use notes::Notes;
pub(crate) use registry::Registry;
pub(crate) use request::Request;

use aplomb_apimachinery::status::ApiError;

use crate::server::ApiServer;

/// The group policies and bindings are in.
const GROUP: &str = "admissionregistration.k8s.io";

/// Policies do not judge themselves or each other, nor questions that are answered and not stored.
const EXEMPT: [(&str, &str); 10] = [
    (GROUP, "validatingadmissionpolicies"),
    (GROUP, "validatingadmissionpolicybindings"),
    (GROUP, "mutatingadmissionpolicies"),
    (GROUP, "mutatingadmissionpolicybindings"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Asks every plugin, and every policy that is bound and matches.
///
/// # Errors
/// The first refusal.
pub(crate) fn validate(server: &ApiServer, request: &Request<'_>) -> Result<(), ApiError> {
    pod_security::check(server, request)?;
    if server.checks_owners() {
        owners::check(server, request)?;
    }
    let resource = &request.call.resource;
    let place = (resource.group.as_str(), resource.plural.as_str());
    if EXEMPT.contains(&place) {
        return Ok(());
    }
    let hooks = server.admission().hooks(server);
    if hooks.is_empty() {
        return Ok(());
    }
    dispatch::dispatch(server, request, &hooks)
}

#[cfg(test)]
mod tests;
