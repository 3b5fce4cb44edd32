//! All policies over one request: who matches, what each binding does with what was found, and the
//! answer when somebody refuses.

use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_cel::{Val, value_of};
use serde_json::{Value, json};

use super::evaluate::{self, Denial, Input};
use super::matching::{self, Matched};
use super::policy::{Binding, Hook, Policy};
use super::request::Request;
use super::{authorizer, params};
use crate::server::ApiServer;

/// An audit annotation may not be longer.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;
const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A refusal: which policy, which binding, what and why.
struct Refusal<'a> {
    policy: &'a Policy,
    binding: Option<&'a Binding>,
    message: String,
    reason: &'static str,
}

/// Asks every policy; the first refusal is the answer.
pub(super) fn dispatch(server: &ApiServer, request: &Request<'_>, hooks: &[Hook]) -> Result<(), ApiError> {
    let mut refusals = Vec::new();
    for hook in hooks {
        if let Err(why) = ask(server, request, hook, &mut refusals) {
            configuration(&hook.policy, None, &why, &mut refusals);
        }
    }
    match refusals.first() {
        Some(refusal) => Err(refused(request, refusal)),
        None => Ok(()),
    }
}

/// What is wrong with the policy or the binding itself refuses, unless failures are ignored.
fn configuration<'a>(policy: &'a Policy, binding: Option<&'a Binding>, why: &str, refusals: &mut Vec<Refusal<'a>>) {
    let what = if binding.is_some() { "binding" } else { "policy" };
    if policy.fails {
        refusals.push(Refusal {
            policy,
            binding,
            message: format!("failed to configure {what}: {why}"),
            reason: "",
        });
    }
}

fn ask<'a>(
    server: &ApiServer,
    request: &Request<'_>,
    hook: &'a Hook,
    refusals: &mut Vec<Refusal<'a>>,
) -> Result<(), String> {
    let policy = &hook.policy;
    let Some(matched) = matching::matches(server, request, &policy.constraints)? else {
        return Ok(());
    };
    let resource = params::resource(server, policy)?;
    let mut annotations: Vec<(String, Vec<String>)> = Vec::new();
    for binding in &hook.bindings {
        let params = match bound(server, request, binding) {
            Ok(false) => continue,
            Ok(true) => params::collect(server, resource.as_ref(), binding, request.namespace()),
            Err(why) => Err(why),
        };
        let params = match params {
            Ok(params) => params,
            Err(why) => {
                configuration(policy, Some(binding), &why, refusals);
                continue;
            }
        };
        for params in params {
            let input = input(server, request, &matched, &params);
            let verdict = evaluate::evaluate(policy, &input);
            for denial in &verdict.denials {
                act(request, policy, binding, denial, refusals);
            }
            for (key, value) in verdict.annotations {
                match value {
                    Ok(value) => collect(&mut annotations, key, value),
                    Err(message) => refusals.push(Refusal {
                        policy,
                        binding: Some(binding),
                        message,
                        reason: "",
                    }),
                }
            }
        }
    }
    for (key, values) in annotations {
        let key = format!("{}/{key}", policy.name);
        request.call.notes.annotate(key, values.join(", "));
    }
    Ok(())
}

fn bound(server: &ApiServer, request: &Request<'_>, binding: &Binding) -> Result<bool, String> {
    match &binding.resources {
        None => Ok(true),
        Some(criteria) => Ok(matching::matches(server, request, criteria)?.is_some()),
    }
}

/// Several bindings may give one annotation several values.
fn collect(annotations: &mut Vec<(String, Vec<String>)>, key: String, mut value: String) {
    let mut end = value.len().min(MAX_ANNOTATION_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.truncate(end);
    match annotations.iter_mut().find(|(known, _)| *known == key) {
        None => annotations.push((key, vec![value])),
        Some((_, values)) if values.contains(&value) => {}
        Some((_, values)) => values.push(value),
    }
}

/// Does with a denial what the binding says.
fn act<'a>(
    request: &Request<'_>,
    policy: &'a Policy,
    binding: &'a Binding,
    denial: &Denial,
    refusals: &mut Vec<Refusal<'a>>,
) {
    let Denial { index, message, reason } = denial;
    let notes = &request.call.notes;
    for action in &binding.actions {
        match action.as_str() {
            "Deny" => refusals.push(Refusal {
                policy,
                binding: Some(binding),
                message: message.clone(),
                reason,
            }),
            "Warn" => notes.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                policy.name, binding.name
            )),
            // The members of this one are written in this order.
            "Audit" => notes.annotate(
                FAILURE_ANNOTATION.to_owned(),
                format!(
                    "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\"validationActions\":{}}}]",
                    json!(message),
                    json!(policy.name),
                    json!(binding.name),
                    json!(binding.actions)
                ),
            ),
            _ => {}
        }
    }
}

/// The values of everything expressions see.
fn input(server: &ApiServer, request: &Request<'_>, matched: &Matched, params: &Value) -> Input {
    let own = &request.call.resource.strategy;
    let seen = |object: Option<&Value>| match (object, &matched.version) {
        (None, _) => Val::Null,
        (Some(object), None) => value_of(object),
        (Some(object), Some(version)) => {
            let stored = own.to_storage(object.clone());
            value_of(&version.strategy.from_storage(stored))
        }
    };
    let is_namespace = request.kind == (String::new(), "v1".to_owned(), "Namespace".to_owned());
    let namespace = match request.namespace() {
        "" => None,
        _ if is_namespace => None,
        name => server.get("", "namespaces", "", name),
    };
    Input {
        object: seen(request.object),
        old: seen(request.old),
        request: value_of(&request.variable(&matched.resource, &matched.kind)),
        plain_request: value_of(&request.variable(&request.resource(), &matched.kind)),
        params: value_of(params),
        authorizer: authorizer::of(server, request),
        namespace: namespace.map_or(Value::Null, |namespace| Value::clone(&namespace)),
    }
}

fn refused(request: &Request<'_>, refusal: &Refusal<'_>) -> ApiError {
    let Refusal {
        policy,
        binding,
        message,
        reason,
    } = refusal;
    let by = match binding {
        Some(binding) => format!("'{}' with binding '{}'", policy.name, binding.name),
        None => format!("'{}'", policy.name),
    };
    let message = format!("ValidatingAdmissionPolicy {by} denied request: {message}");
    let resource = &request.call.resource;
    let resource = GroupResource::new(&resource.group, &resource.plural);
    let (code, reason) = match *reason {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    let refused = ApiError::forbidden(&resource, request.shown_name(), &message)
        .with_detail("causes", json!([{ "message": message }]));
    ApiError {
        code,
        reason,
        ..refused
    }
}
