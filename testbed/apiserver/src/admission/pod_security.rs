//! PodSecurity: what Pods may do to their node, by what the labels of their namespace ask for.
//!
//! As the server runs it without a configuration: nothing is asked for where no label asks, and
//! nobody is exempt. This file is the shell, which reads the namespace and writes notes; what the
//! labels mean is in `policy`, what a level forbids in `checks`. A kind that has no Pod in it is
//! let through before anything is read.

mod checks;
mod namespaces;
mod pod;
mod policy;
mod standard;
#[cfg(test)]
mod tests;
mod words;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use self::pod::Pod;
use self::policy::{PREFIX, Policy};
use self::standard::Standard;
use super::request::Request;
use crate::server::ApiServer;

/// What is done to a Pod that leaves its specification alone.
const IGNORED: [&str; 8] = [
    "attach",
    "binding",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// Refuses a Pod that its namespace forbids and labels nobody understands; warns and annotates.
pub(super) fn check(server: &ApiServer, request: &Request<'_>) -> Result<(), ApiError> {
    let Some(object) = request.object else {
        return Ok(());
    };
    let resource = &request.call.resource;
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => check_pod(server, request, object),
        ("", "namespaces") => namespaces::check(server, request, object),
        ("", "podtemplates") => check_template(server, request, &object["template"]),
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => check_template(server, request, &object["spec"]["template"]),
        ("batch", "cronjobs") => {
            let template = &object["spec"]["jobTemplate"]["spec"]["template"];
            check_template(server, request, template)
        }
        _ => Ok(()),
    }
}

fn check_pod(server: &ApiServer, request: &Request<'_>, pod: &Value) -> Result<(), ApiError> {
    if IGNORED.contains(&request.subresource) {
        return Ok(());
    }
    let (policy, errors) = asked_for(server, request);
    if errors.is_empty() && policy.is_privileged() {
        annotate(request, "enforce-policy", Standard::default().to_string());
        return Ok(());
    }
    if request.old.is_some_and(|old| !pod::matters(pod, old)) {
        return Ok(());
    }
    let pod = Pod::of(pod);
    annotate(request, "enforce-policy", policy.enforce.to_string());
    let forbidden = checks::judge(policy.enforce, &pod);
    note_audit(request, &policy, &errors, &pod);
    if forbidden.is_empty() {
        note_warning(request, &policy, &pod);
        return Ok(());
    }
    let (standard, detail) = (policy.enforce, forbidden.detail());
    let why = format!("violates PodSecurity \"{standard}\": {detail}");
    let resource = request.call.resource.group_resource();
    Err(ApiError::forbidden(&resource, request.shown_name(), &why))
}

/// What makes Pods is never refused: the Pods will be.
fn check_template(server: &ApiServer, request: &Request<'_>, template: &Value) -> Result<(), ApiError> {
    if !request.subresource.is_empty() || template.is_null() {
        return Ok(());
    }
    let (policy, errors) = asked_for(server, request);
    if errors.is_empty() && policy.only_enforces() {
        return Ok(());
    }
    let pod = Pod::of(template);
    note_audit(request, &policy, &errors, &pod);
    note_warning(request, &policy, &pod);
    Ok(())
}

/// What the namespace of the request asks for, and what in its labels is not understood.
fn asked_for(server: &ApiServer, request: &Request<'_>) -> (Policy, Vec<FieldError>) {
    match server.get("", "namespaces", "", request.namespace()) {
        Some(namespace) => policy::of(&namespace),
        None => (Policy::default(), Vec::new()),
    }
}

fn note_audit(request: &Request<'_>, policy: &Policy, errors: &[FieldError], pod: &Pod<'_>) {
    if !errors.is_empty() {
        let errors = together(errors);
        annotate(request, "error", format!("Failed to parse policy: {errors}"));
    }
    if let Some(violation) = would_violate(policy.audit, pod) {
        annotate(request, "audit-violations", violation);
    }
}

fn note_warning(request: &Request<'_>, policy: &Policy, pod: &Pod<'_>) {
    if let Some(violation) = would_violate(policy.warn, pod) {
        request.call.notes.warn(violation);
    }
}

fn would_violate(standard: Standard, pod: &Pod<'_>) -> Option<String> {
    let forbidden = checks::judge(standard, pod);
    let detail = forbidden.detail();
    (!forbidden.is_empty()).then(|| format!("would violate PodSecurity \"{standard}\": {detail}"))
}

fn annotate(request: &Request<'_>, key: &str, value: String) {
    request.call.notes.annotate(format!("{PREFIX}{key}"), value);
}

/// Several errors as Go prints them in one.
fn together(errors: &[FieldError]) -> String {
    let messages: Vec<String> = errors.iter().map(FieldError::message).collect();
    match messages.as_slice() {
        [only] => only.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}
