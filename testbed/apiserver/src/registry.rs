//! The verbs: what a call does to the store and what it answers, as the server's generic registry
//! does it. Kinds differ behind `resource::Strategy`; URLs and headers are the business of `http`.

mod admission;
mod apply;
pub(crate) mod bootstrap;
mod commit;
mod create;
mod decode;
mod delete;
pub(crate) mod field_management;
mod get;
mod graceful_deletion;
mod jsonpatch;
mod list;
mod metadata;
mod options;
mod patch;
mod quota;
mod selector;
mod strategic;
mod token;
mod update;
mod validation;
mod virtual_resources;
mod watch;

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Part, Resource, View};
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use crate::call::{Call, Outcome, Verb};
use crate::definitions;
use crate::server::ApiServer;
use crate::storage::Key;

use field_management::Managers;
pub(crate) use update::check_name;

/// An object that was stored, in the served version, and what the client is told.
#[derive(Debug)]
struct Written {
    object: Arc<Value>,
    warnings: Vec<String>,
}

/// Carries out one authenticated and authorised call.
///
/// # Errors
/// What the server answers instead of the outcome.
pub async fn handle(server: &ApiServer, call: Call) -> Result<Outcome, ApiError> {
    if definitions::concerns(&call) {
        return write_definition(server, &call).await;
    }
    if let Some(found) = call.resource.strategy.observed() {
        return virtual_resources::answer(&call, found);
    }
    let outcome = match call.verb {
        Verb::Get if call.view.is_some() => get_through(server, &call).await,
        Verb::Get => get::get(server, &call).await,
        Verb::List => list::list(server, &call).await,
        Verb::Watch => return watch::watch(server, call).await,
        _ => write(server, &call).await,
    };
    outcome.map(|outcome| shown(&call, outcome))
}

/// Reads an object and shows what its view shows.
async fn get_through(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let Some(view) = &call.view else {
        return get::get(server, call).await;
    };
    let whole = Call {
        resource: view.parent().clone(),
        ..call.clone()
    };
    match get::get(server, &whole).await? {
        Outcome::Object { code, object, warnings } => Ok(Outcome::Object {
            code,
            object: shown_through(&**view, &object)?.into(),
            warnings,
        }),
        other => Ok(other),
    }
}

/// What is answered of an object through a view: owners of fields only where it is the object itself.
fn shown_through(view: &dyn View, object: &Value) -> Result<Value, ApiError> {
    let mut shown = view.show(object)?;
    if object::text(&shown, "kind") != view.parent().kind {
        object::set_or_remove(&mut shown, "managedFields", None);
    }
    Ok(shown)
}

/// A body of a POST to a subresource: an object of `call.resource` in the namespace of the path, and
/// warnings about it.
///
/// # Errors
/// The server's answer to a body it does not take.
pub(crate) fn posted(server: &ApiServer, call: &Call) -> Result<(Value, Vec<String>), ApiError> {
    options::validate(call, "CreateOptions")?;
    let decode::Body { mut object, warnings } = decode::body(call)?;
    let placed = create::set_namespace(call, &mut object);
    match placed.and_then(|()| admission::create(server, call, &object)) {
        Ok(()) => Ok((object, warnings)),
        Err(error) => Err(error.after_warnings(warnings)),
    }
}

/// A new object of a subresource with its owner.
pub(crate) fn owned(server: &ApiServer, call: &Call, object: Value, subresource: &'static str) -> Value {
    let managers = Managers::of(server, call).through(subresource);
    managers.update(None, object)
}

/// What is wrong with the metadata of an object of a kind, by that kind's rule for names.
pub(crate) fn metadata_errors(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = metadata::validate_create(resource, object);
    errors.extend(options::finalizer_errors(resource, object));
    errors
}

/// Stores what a subresource made of an object, past the rules of its kind; `None` when somebody
/// else was faster.
///
/// # Errors
/// The server's answer to an object that is too large.
pub(crate) fn put(
    server: &ApiServer,
    call: &Call,
    key: &Key,
    stored: &Arc<Value>,
    object: Value,
) -> Result<Option<Arc<Value>>, ApiError> {
    Ok(commit::put(server, call, key, Some(stored), object)?.ok())
}

/// What an answer shows of the objects in it.
fn shown(call: &Call, mut outcome: Outcome) -> Outcome {
    let resource = &call.resource;
    if !resource.strategy.shows_otherwise() || call.part == Part::Status {
        return outcome;
    }
    match &mut outcome {
        // What a deletion leaves behind, and what the last finalizer goes with, is shown as it is.
        Outcome::Object { object, .. }
            if object::is_terminating(object)
                && (call.verb == Verb::Delete) != object::finalizers(object).is_empty() => {}
        Outcome::Object { object, .. } if object["kind"] == resource.kind.as_str() => {
            resource.strategy.show(Arc::make_mut(object));
        }
        Outcome::List { items, .. } => {
            for item in items {
                resource.strategy.show(Arc::make_mut(item));
            }
        }
        _ => {}
    }
    outcome
}

async fn write(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    match call.verb {
        Verb::Create => create::create(server, call),
        Verb::Update => update::update(server, call),
        Verb::Patch => patch::patch(server, call),
        Verb::Delete => delete::delete(server, call),
        _ => delete::delete_collection(server, call).await,
    }
}

/// A definition is served, or no longer served, after it is written.
async fn write_definition(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let outcome = write(server, call).await?;
    match &outcome {
        Outcome::Object { object, .. } => definitions::changed(server, object::name(object)),
        Outcome::List { items, .. } => {
            items
                .iter()
                .for_each(|item| definitions::changed(server, object::name(item)));
        }
        Outcome::Watch(_) => {}
    }
    Ok(outcome)
}

/// A stored object in the version of a resource.
fn served(resource: &Resource, stored: &Arc<Value>) -> Arc<Value> {
    if resource.strategy.serves_stored_form() {
        return stored.clone();
    }
    Arc::new(resource.strategy.from_storage(Value::clone(stored)))
}

/// An object that is not stored, in the form it would come back in.
fn as_if_stored(resource: &Resource, mut object: Value) -> Value {
    let strategy = &resource.strategy;
    object::settle_numbers(&mut object);
    strategy.from_storage(strategy.to_storage(object))
}

#[cfg(test)]
mod tests;
