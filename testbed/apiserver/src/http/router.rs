//! Which handler a request reaches: the server's router for the groups it brings with it, the
//! handler of custom resources for all others, and the answers of each for what they do not serve.

use std::sync::Arc;

use aplomb_apimachinery::resource::{Part, Resource};
use aplomb_apimachinery::status::ApiError;
use http::Method;
use serde_json::json;

use super::body::BoxedBody;
use super::builtin::is_builtin;
use super::filters::Context;
use super::handlers::{self, Target};
use super::negotiate::{self, produces};
use super::representation::{self, View};
use super::response::Reply;
use super::{connect, discovery, nonresource, proxy};
use crate::auth::review;
use crate::call::Verb;
use crate::subresource::{Subresource, scale};

const TYPES: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const STREAMS: &str = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

pub(super) async fn answer(context: &mut Context<'_>, body: BoxedBody<'_>) -> Reply {
    if context.info.path.starts_with("//") {
        return context.error(&no_such_path());
    }
    if !context.info.is_resource {
        return nonresource::answer(context);
    }
    if connect::concerns(context) {
        return connect::answer(context).unwrap_or_else(|error| context.error(&error));
    }
    if proxy::concerns(context) {
        return proxy::answer(context).unwrap_or_else(|error| context.error(&error));
    }
    let builtin = is_builtin(&context.info.group);
    let target = if builtin { route(context) } else { custom(context) };
    match target {
        Ok(Handler::Verb(target)) => handlers::answer(context, target, body).await,
        Ok(Handler::Review(kind)) => handlers::review(context, kind, body).await,
        Ok(Handler::View(target, view)) => representation::answer(context, target, view, body).await,
        Err(error) => context.error(&error),
    }
}

pub(super) enum Handler {
    Verb(Target),
    Review(review::ReviewKind),
    View(Target, View),
}

/// 404 of a path nobody serves.
pub(super) fn no_such_path() -> ApiError {
    ApiError::plain(404, "404 page not found")
}

/// An error of the router, which has nothing to say about any object.
pub(super) fn router_error(code: u16, reason: &'static str, message: &str) -> ApiError {
    ApiError {
        details: Some(json!({})),
        ..ApiError::new(code, reason, message)
    }
}

pub(super) fn not_found() -> ApiError {
    router_error(404, "NotFound", "the server could not find the requested resource")
}

pub(super) fn not_allowed() -> ApiError {
    let message = "the server does not allow this method on the requested resource";
    router_error(405, "MethodNotAllowed", message)
}

/// 406 of the router, which names every representation it could give.
pub(super) fn router_not_acceptable(types: &str) -> ApiError {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
    router_error(406, "NotAcceptable", &message)
}

fn route(context: &Context<'_>) -> Result<Handler, ApiError> {
    let info = &context.info;
    let server = &context.shared.server;
    if !discovery::serves_group(server, &info.group) {
        return Err(no_such_path());
    }
    if let Some(kind) = review::ReviewKind::find(&info.group, &info.version, &info.resource) {
        return route_review(context, kind).map(Handler::Review);
    }
    if info.group.is_empty() && info.resource == "bindings" {
        return bindings(context).map(Handler::Verb);
    }
    let resource = server
        .resource(&info.group, &info.version, &info.resource)
        .ok_or_else(not_found)?;
    if info.group.is_empty() && info.resource == "namespaces" && info.subresource == "finalize" {
        return finalize(context, resource);
    }
    let target = match Subresource::find(&resource, &info.subresource) {
        Some(sub) => place_sub(context, resource, sub)?,
        None => {
            let target = place(context, resource)?;
            Target {
                verb: method_verb(context, &target)?,
                ..target
            }
        }
    };
    check_media_types(context, target.verb)?;
    Ok(Handler::Verb(target))
}

/// Refuses patches of no known type, and clients that take none of the types there are.
fn check_media_types(context: &Context<'_>, verb: Verb) -> Result<(), ApiError> {
    if verb == Verb::Patch && negotiate::patch_type(&context.headers).is_none() {
        return Err(router_error(415, "UnsupportedMediaType", "415: Unsupported Media Type"));
    }
    if !produces(&context.headers, &TYPES) {
        let streams = matches!(verb, Verb::List | Verb::Watch);
        let types = format!("{}{}", TYPES.join(", "), if streams { STREAMS } else { "" });
        return Err(router_not_acceptable(&types));
    }
    Ok(())
}

/// A subresource that is neither the object nor its status, with the verb of the request.
fn place_sub(context: &Context<'_>, resource: Arc<Resource>, sub: Subresource) -> Result<Target, ApiError> {
    let info = &context.info;
    if resource.namespaced == info.namespace.is_empty() || info.parts.len() > 3 {
        return Err(not_found());
    }
    let verb = match context.method {
        _ if info.legacy_watch => return Err(not_allowed()),
        Method::GET => Verb::Get,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::POST => Verb::Create,
        _ => return Err(not_allowed()),
    };
    if !sub.serves(verb) {
        return Err(not_allowed());
    }
    Ok(Target {
        resource,
        part: Part::Main,
        namespace: Some(info.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: Some(info.name.clone()),
        verb,
        custom: false,
        sub: Some(sub),
    })
}

/// What `pods/binding` does, of the Pod the body names.
fn bindings(context: &Context<'_>) -> Result<Target, ApiError> {
    let info = &context.info;
    let pods = context.shared.server.resource("", &info.version, "pods");
    let pods = pods.ok_or_else(not_found)?;
    if info.parts.len() > 1 {
        return Err(not_found());
    }
    if context.method != Method::POST || info.namespace.is_empty() {
        return Err(not_allowed());
    }
    if !produces(&context.headers, &TYPES) {
        return Err(router_not_acceptable(&TYPES.join(", ")));
    }
    Ok(Target {
        resource: pods,
        part: Part::Main,
        namespace: Some(info.namespace.clone()),
        name: None,
        verb: Verb::Create,
        custom: false,
        sub: Some(Subresource::Binding),
    })
}

fn finalize(context: &Context<'_>, resource: Arc<Resource>) -> Result<Handler, ApiError> {
    if context.info.parts.len() > 3 {
        return Err(not_found());
    }
    if context.method != Method::PUT {
        return Err(not_allowed());
    }
    let name = Some(context.info.name.clone());
    let (part, verb) = (Part::Main, Verb::Update);
    let target = Target {
        resource,
        part,
        namespace: None,
        name,
        verb,
        custom: false,
        sub: None,
    };
    Ok(Handler::View(target, View::Finalize))
}

fn route_review(context: &Context<'_>, kind: review::ReviewKind) -> Result<review::ReviewKind, ApiError> {
    let info = &context.info;
    let in_place = kind.namespaced() != info.namespace.is_empty();
    if !info.name.is_empty() || !in_place {
        return Err(not_found());
    }
    if context.method != Method::POST {
        return Err(not_allowed());
    }
    if !produces(&context.headers, &TYPES) {
        return Err(router_not_acceptable(&TYPES.join(", ")));
    }
    Ok(kind)
}

/// Where a path points within a resource; the verb is still to be found.
fn place(context: &Context<'_>, resource: Arc<Resource>) -> Result<Target, ApiError> {
    let info = &context.info;
    let part = match info.subresource.as_str() {
        "" => Part::Main,
        "status" if resource.has_status => Part::Status,
        _ => return Err(not_found()),
    };
    // A namespace is its own namespace in a path.
    let namespace = if info.resource == "namespaces" {
        ""
    } else {
        info.namespace.as_str()
    };
    let named = info.parts.len() > 1;
    let lost = if resource.namespaced {
        namespace.is_empty() && named
    } else {
        !namespace.is_empty()
    };
    if lost || info.parts.len() > 3 || info.verb == "proxy" {
        return Err(not_found());
    }
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    let name = named.then(|| info.name.clone());
    Ok(Target {
        resource,
        part,
        namespace,
        name,
        verb: Verb::Get,
        custom: false,
        sub: None,
    })
}

fn method_verb(context: &Context<'_>, target: &Target) -> Result<Verb, ApiError> {
    let resource = &target.resource;
    let everywhere = resource.namespaced && target.namespace.is_none();
    let verb = match (&context.method, target.name.is_some()) {
        (&Method::GET, _) if context.info.verb == "watch" => Verb::Watch,
        (_, _) if context.info.legacy_watch => return Err(not_allowed()),
        (&Method::GET, true) => Verb::Get,
        (&Method::GET, false) => Verb::List,
        (&Method::PUT, true) => Verb::Update,
        (&Method::PATCH, true) => Verb::Patch,
        (&Method::DELETE, true) if target.part == Part::Main => Verb::Delete,
        (&Method::POST, false) if !everywhere => Verb::Create,
        (&Method::DELETE, false) if !everywhere => Verb::DeleteCollection,
        _ => return Err(not_allowed()),
    };
    let verbs = &resource.verbs;
    let served = verbs.is_empty() || verbs.iter().any(|served| served == verb.as_str());
    if served { Ok(verb) } else { Err(not_allowed()) }
}

/// Custom resources: the verb of the request counts, not its method.
fn custom(context: &Context<'_>) -> Result<Handler, ApiError> {
    let info = &context.info;
    let server = &context.shared.server;
    let resource = server
        .resource(&info.group, &info.version, &info.resource)
        .ok_or_else(no_such_path)?;
    let across = matches!(info.verb.as_str(), "list" | "watch");
    let in_namespace = !info.namespace.is_empty();
    if (!resource.namespaced && in_namespace) || (resource.namespaced && !in_namespace && !across) {
        return Err(no_such_path());
    }
    let gr = resource.group_resource();
    let scale = (info.subresource == "scale")
        .then(|| scale::Paths::of(server, &resource))
        .flatten();
    let part = match info.subresource.as_str() {
        "" => Part::Main,
        "status" if resource.has_status => Part::Status,
        "scale" if scale.is_some() => Part::Status,
        _ => return Err(ApiError::not_found(&gr, &info.name)),
    };
    let verb = custom_verb(&info.verb, part);
    let verb = verb.ok_or_else(|| ApiError::method_not_supported(&gr, &info.verb))?;
    let namespace = in_namespace.then(|| info.namespace.clone());
    let name = (info.parts.len() > 1 && verb != Verb::Create).then(|| info.name.clone());
    let target = Target {
        resource,
        part,
        namespace,
        name,
        verb,
        custom: true,
        sub: None,
    };
    Ok(match scale {
        Some(paths) => Handler::View(target, View::Scale(paths)),
        None => Handler::Verb(target),
    })
}

fn custom_verb(verb: &str, part: Part) -> Option<Verb> {
    match (verb, part) {
        ("get", _) => Some(Verb::Get),
        ("update", _) => Some(Verb::Update),
        ("patch", _) => Some(Verb::Patch),
        ("list", Part::Main) => Some(Verb::List),
        ("watch", Part::Main) => Some(Verb::Watch),
        ("create", Part::Main) => Some(Verb::Create),
        ("delete", Part::Main) => Some(Verb::Delete),
        ("deletecollection", Part::Main) => Some(Verb::DeleteCollection),
        _ => None,
    }
}
