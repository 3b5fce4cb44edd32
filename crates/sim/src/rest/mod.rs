//! The verbs: what a call does to the store and what it answers, as the server's generic registry
//! does it. Kinds differ behind `resource::Strategy`; URLs and headers are the business of `http`.

mod admission;
mod apply;
mod commit;
mod create;
mod decode;
mod delete;
mod get;
pub mod json;
mod jsonpatch;
pub mod labels;
mod list;
mod managers;
mod meta;
pub mod names;
mod options;
mod patch;
mod peculiar;
mod phased;
mod selector;
mod token;
mod update;
mod watch;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::call::{Call, Outcome, Verb};
use crate::definitions;
use crate::kinds;
use crate::object;
use crate::resource::{Part, Resource};
use crate::server::{ApiServer, key_of};
use crate::status::ApiError;

use managers::Managers;

/// An object that was stored, in the served version, and what the client is told.
#[derive(Debug)]
struct Written {
    object: Value,
    warnings: Vec<String>,
}

/// Where the server says it listens; nothing in the box connects to it.
const ADVERTISED: (&str, u16) = ("192.0.2.1", 6443);

/// Carries out one authenticated and authorised call.
///
/// # Errors
/// What the server answers instead of the outcome.
pub async fn handle(server: &ApiServer, call: Call) -> Result<Outcome, ApiError> {
    if definitions::concerns(&call) {
        return write_definition(server, &call).await;
    }
    let outcome = match call.verb {
        Verb::Get => get::get(server, &call).await,
        Verb::List => list::list(server, &call).await,
        Verb::Watch => return watch::watch(server, call).await,
        _ => write(server, &call).await,
    };
    outcome.map(|outcome| shown(&call, outcome))
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
            resource.strategy.show(object);
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
fn served(resource: &Resource, stored: &Value) -> Value {
    resource.strategy.from_storage(stored.clone())
}

/// An object that is not stored, in the form it would come back in.
fn as_if_stored(resource: &Resource, mut object: Value) -> Value {
    let strategy = &resource.strategy;
    object::settle_numbers(&mut object);
    strategy.from_storage(strategy.to_storage(object))
}

/// Makes what every cluster has: its namespaces and the service of the server itself.
pub(crate) fn bootstrap(server: &ApiServer) {
    for body in kinds::bootstrap(ADVERTISED.0, ADVERTISED.1) {
        let (version, kind) = (body["apiVersion"].as_str(), body["kind"].as_str());
        let Some(resource) =
            server.resource_of_kind(version.unwrap_or_default(), kind.unwrap_or_default())
        else {
            continue;
        };
        let namespace = resource
            .namespaced
            .then(|| object::namespace(&body).to_owned());
        let key = key_of(&resource.storage, namespace.as_deref(), object::name(&body));
        if server.store().get(&key).is_some() {
            continue;
        }
        let mut call = Call::new(Verb::Create, resource).body(&body);
        call.namespace = namespace;
        create::create(server, &call).expect("what every cluster has is valid");
    }
}

#[cfg(test)]
mod tests;
