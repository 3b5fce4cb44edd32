//! Nobody grants what they do not have: the server's check on writes of roles and bindings.
//!
//! Only with RBAC on. The object that would be written is found by a dry run, so that every kind of
//! write is judged by its result.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::rbac::{self, Attributes, GROUP};
use super::rules::Rule;
use super::tokens::MASTERS;
use crate::call::{Call, Outcome, Verb};
use crate::server::ApiServer;

/// Refuses a write that would give somebody more than its writer has.
///
/// # Errors
/// 403 naming what is missing, or the write's own error.
pub async fn check(server: &ApiServer, call: &Call) -> Result<(), ApiError> {
    let writes = matches!(call.verb, Verb::Create | Verb::Update | Verb::Patch);
    let master = call.user.groups.iter().any(|group| group == MASTERS);
    if !server.rbac() || !writes || master || call.resource.group != GROUP {
        return Ok(());
    }
    let mut dry = call.clone();
    dry.options.dry_run = true;
    let Outcome::Object { object, .. } = Box::pin(server.call(dry)).await? else {
        return Ok(());
    };
    let namespace = call.namespace.as_deref().unwrap_or_default();
    let plural = &call.resource.plural;
    let live = server.get(GROUP, plural, namespace, object::name(&object));
    let live = live.as_deref().unwrap_or(&Value::Null);
    if only_about_keeping(live, &object) {
        return Ok(());
    }
    let granted = match plural.as_str() {
        "roles" | "clusterroles" if !may(server, call, "escalate", plural, &object) => Rule::of_role(&object),
        "rolebindings" | "clusterrolebindings" => bound(server, call, &object)?,
        _ => return Ok(()),
    };
    let held = rbac::rules_for(server, &call.user, namespace);
    let lacking = missing(&granted, &held);
    if !lacking.is_empty() {
        return Err(refusal(call, &object, &lacking));
    }
    if (gathers(live) || gathers(&object)) && !missing(&everything(), &held).is_empty() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(forbidden(call, &object, why));
    }
    Ok(())
}

/// What of the rules that are given out is not held, in parts that cannot be held by halves.
fn missing(granted: &[Rule], held: &[Rule]) -> Vec<Rule> {
    let parts = granted.iter().flat_map(Rule::split);
    parts
        .filter(|part| !held.iter().any(|rule| rule.covers(part)))
        .collect()
}

/// What a garbage collector changes gives nobody anything.
fn only_about_keeping(live: &Value, object: &Value) -> bool {
    const KEEPING: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "resourceVersion"];
    let rest = |object: &Value| {
        let mut rest = object.clone();
        for member in KEEPING {
            object::set_or_remove(&mut rest, member, None);
        }
        rest["apiVersion"].take();
        rest["kind"].take();
        rest
    };
    !live.is_null() && rest(live) == rest(object)
}

/// Whether a role is made of others: it can come to hold anything, and could not be tightened.
fn gathers(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    selectors
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

fn everything() -> [Rule; 2] {
    let any = || vec!["*".to_owned()];
    let resources = Rule {
        verbs: any(),
        groups: any(),
        resources: any(),
        ..Rule::default()
    };
    let urls = Rule {
        verbs: any(),
        urls: any(),
        ..Rule::default()
    };
    [resources, urls]
}

/// The rules a binding gives out, unless its writer may bind that role anyway.
fn bound(server: &ApiServer, call: &Call, binding: &Value) -> Result<Vec<Rule>, ApiError> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name = text("/roleRef/name");
    let (plural, namespace) = match text("/roleRef/kind") {
        "ClusterRole" => ("clusterroles", ""),
        "Role" => ("roles", call.namespace.as_deref().unwrap_or_default()),
        _ => return Ok(Vec::new()),
    };
    let asked = Attributes {
        is_resource: true,
        verb: "bind".into(),
        group: GROUP.into(),
        resource: plural.into(),
        namespace: call.namespace.clone().unwrap_or_default(),
        name: name.into(),
        ..Attributes::default()
    };
    if rbac::authorize(server, &call.user, &asked).allowed {
        return Ok(Vec::new());
    }
    // The server names the binding's own resource here.
    let gr = call.resource.group_resource();
    let role = server.get(GROUP, plural, namespace, name);
    let role = role.ok_or_else(|| ApiError::not_found(&gr, name))?;
    Ok(Rule::of_role(&role))
}

fn may(server: &ApiServer, call: &Call, verb: &str, resource: &str, object: &Value) -> bool {
    let asked = Attributes {
        is_resource: true,
        verb: verb.into(),
        group: GROUP.into(),
        resource: resource.into(),
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name.clone().unwrap_or_else(|| object::name(object).to_owned()),
        ..Attributes::default()
    };
    rbac::authorize(server, &call.user, &asked).allowed
}

fn refusal(call: &Call, object: &Value, missing: &[Rule]) -> ApiError {
    let groups: Vec<String> = call.user.groups.iter().map(|group| go_quote(group)).collect();
    let mut lines: Vec<String> = compact(missing).iter().map(Rule::describe).collect();
    lines.sort();
    lines.dedup();
    let why = format!(
        "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        go_quote(&call.user.name),
        groups.join(" "),
        lines.join("\n")
    );
    forbidden(call, object, &why)
}

fn forbidden(call: &Call, object: &Value, why: &str) -> ApiError {
    ApiError::forbidden(&call.resource.group_resource(), object::name(object), why)
}

/// Joins rules that differ only in their verbs.
fn compact(rules: &[Rule]) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = joined.iter_mut().find(|other| {
            other.groups == rule.groups
                && other.resources == rule.resources
                && other.names == rule.names
                && other.urls == rule.urls
        });
        match same {
            Some(other) => other.verbs.extend(rule.verbs.iter().cloned()),
            None => joined.push(rule.clone()),
        }
    }
    joined
}
