//! The verbs: what a call does to the store and what it answers, as the server's generic registry
//! does it. Kinds differ behind `resource::Strategy`; URLs and headers are the business of `http`.

use crate::call::{Call, Outcome};
use crate::server::ApiServer;
use crate::status::ApiError;

/// Carries out one authenticated and authorised call.
///
/// # Errors
/// What the server answers instead of the outcome.
pub async fn handle(_server: &ApiServer, call: Call) -> Result<Outcome, ApiError> {
    Err(ApiError::method_not_supported(&call.resource.group_resource(), call.verb.as_str()))
}

/// Makes the namespaces every cluster has.
pub(crate) fn bootstrap(_server: &ApiServer) {}
