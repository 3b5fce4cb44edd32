//! Whether a policy or a binding is about a request: its rules, exclusions and selectors, and
//! under which of its versions a resource was matched.

use std::sync::Arc;

use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_builtin_kinds as kinds;
use serde_json::Value;

use super::request::{Operation, Request, Triple, triple};
use crate::server::ApiServer;

/// The version of a resource a policy asked for.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    pub(super) resource: Triple,
    pub(super) kind: Triple,
    /// The version, when it is not the one of the request.
    pub(super) version: Option<Arc<Resource>>,
}

/// How `criteria`, the `matchConstraints` of a policy or the `matchResources` of a binding, match.
///
/// # Errors
/// Why that cannot be told.
pub(super) fn matches(server: &ApiServer, request: &Request<'_>, criteria: &Value) -> Result<Option<Matched>, String> {
    let in_namespace = namespace_selected(server, request, &criteria["namespaceSelector"]);
    if in_namespace == Ok(false) || !object_selected(request, &criteria["objectSelector"]) {
        return Ok(None);
    }
    let excluded = &criteria["excludeResourceRules"];
    if matched_by(server, request, excluded, criteria).is_some() {
        return Ok(None);
    }
    let rules = &criteria["resourceRules"];
    let matched = match rules.as_array().is_some_and(|rules| !rules.is_empty()) {
        true => matched_by(server, request, rules, criteria),
        false => Some(as_requested(request)),
    };
    match (matched, in_namespace) {
        (Some(_), Err(why)) => Err(why),
        (matched, _) => Ok(matched),
    }
}

fn as_requested(request: &Request<'_>) -> Matched {
    Matched {
        resource: request.resource(),
        kind: request.kind.clone(),
        version: None,
    }
}

fn is_everything(selector: &Value) -> bool {
    let empty = |member: &str| match &selector[member] {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    empty("matchLabels") && empty("matchExpressions")
}

fn labels(object: &Value) -> &Value {
    object.pointer("/metadata/labels").unwrap_or(&Value::Null)
}

fn namespace_selected(server: &ApiServer, request: &Request<'_>, selector: &Value) -> Result<bool, String> {
    let name = request.namespace();
    let of_namespaces = request.call.resource.plural == "namespaces";
    if is_everything(selector) || (name.is_empty() && !of_namespaces) {
        return Ok(true);
    }
    let itself = of_namespaces && request.subresource.is_empty();
    if let (true, Some(object), Operation::Create | Operation::Update) = (itself, request.object, request.operation) {
        return Ok(kinds::selects(selector, labels(object)));
    }
    match server.get("", "namespaces", "", name) {
        Some(namespace) => Ok(kinds::selects(selector, labels(&namespace))),
        None => {
            let namespaces = GroupResource::new("", "namespaces");
            Err(ApiError::not_found(&namespaces, name).message)
        }
    }
}

fn object_selected(request: &Request<'_>, selector: &Value) -> bool {
    is_everything(selector)
        || [request.object, request.old]
            .into_iter()
            .flatten()
            .any(|object| kinds::selects(selector, labels(object)))
}

/// The first rule that fits the request, or an equivalent of it unless only exact ones count.
fn matched_by(server: &ApiServer, request: &Request<'_>, rules: &Value, criteria: &Value) -> Option<Matched> {
    let rules = rules.as_array().filter(|rules| !rules.is_empty())?;
    let requested = request.resource();
    let fits =
        |rule: &&Value, resource: &Triple| rule_matches(rule, resource, request) && names_match(rule, request.name);
    if rules.iter().any(|rule| fits(&rule, &requested)) {
        return Some(as_requested(request));
    }
    if criteria["matchPolicy"] != "Equivalent" {
        return None;
    }
    let others = equivalents(server, &request.call.resource);
    rules.iter().find_map(|rule| {
        let found = others.iter().find(|other| {
            let resource = triple(&other.group, &other.version, &other.plural);
            fits(&rule, &resource)
        })?;
        Some(as_equivalent(request, found))
    })
}

fn as_equivalent(request: &Request<'_>, other: &Arc<Resource>) -> Matched {
    let own_kind = request.kind.2 == request.call.resource.kind;
    Matched {
        resource: triple(&other.group, &other.version, &other.plural),
        kind: match own_kind {
            true => triple(&other.group, &other.version, &other.kind),
            false => request.kind.clone(),
        },
        version: own_kind.then(|| other.clone()),
    }
}

/// The other versions in which the same objects are served.
fn equivalents(server: &ApiServer, resource: &Resource) -> Vec<Arc<Resource>> {
    let same = |other: &Arc<Resource>| {
        other.storage == resource.storage && (&other.group, &other.version) != (&resource.group, &resource.version)
    };
    server.resources().into_iter().filter(same).collect()
}

fn listed<'a>(rule: &'a Value, member: &str) -> impl Iterator<Item = &'a str> {
    rule[member].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn names_match(rule: &Value, name: &str) -> bool {
    let mut names = listed(rule, "resourceNames").peekable();
    names.peek().is_none() || names.any(|listed| listed == name)
}

fn rule_matches(rule: &Value, resource: &Triple, request: &Request<'_>) -> bool {
    let any = |member: &str, wanted: &str| listed(rule, member).any(|item| item == "*" || item == wanted);
    let (group, version, plural) = resource;
    let is_namespace = (group.as_str(), plural.as_str()) == ("", "namespaces");
    let in_scope = match rule["scope"].as_str() {
        Some("Namespaced") => !is_namespace && !request.namespace().is_empty(),
        Some("Cluster") => is_namespace || request.namespace().is_empty(),
        _ => true,
    };
    let of_resource = |item: &str| {
        let (wanted, sub) = item.split_once('/').unwrap_or((item, ""));
        (wanted == "*" || wanted == plural) && (sub == "*" || sub == request.subresource)
    };
    in_scope
        && any("operations", request.operation.as_str())
        && any("apiGroups", group)
        && any("apiVersions", version)
        && listed(rule, "resources").any(of_resource)
}
