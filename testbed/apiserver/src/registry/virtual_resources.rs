//! Objects nobody stores: what the server finds when it looks, in the only two verbs they have.

use std::sync::Arc;

use aplomb_apimachinery::object;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use serde_json::Value;

use super::selector::Selection;
use crate::call::{Call, Outcome, Verb};

/// Answers a call about such a kind.
///
/// # Errors
/// 404 for a name nothing has, and for every verb but get and list, which are not routed here.
pub(super) fn answer(call: &Call, found: Vec<Value>) -> Result<Outcome, ApiError> {
    if call.verb == Verb::List {
        return list(call, found);
    }
    let name = call.name.as_deref().unwrap_or_default();
    let object = found.into_iter().find(|object| object::name(object) == name);
    let Some(object) = object else {
        let singular = GroupResource::new(&call.resource.group, &call.resource.singular);
        return Err(ApiError::not_found(&singular, name));
    };
    Ok(Outcome::Object {
        code: 200,
        object: object.into(),
        warnings: Vec::new(),
    })
}

/// Such a list is of no version and has one page.
fn list(call: &Call, found: Vec<Value>) -> Result<Outcome, ApiError> {
    let selection = Selection::of(call, || Ok(()))?;
    let items = found
        .into_iter()
        .filter(|object| selection.matches(&call.resource, object))
        .map(Arc::new)
        .collect();
    Ok(Outcome::List {
        resource_version: 0,
        continue_token: None,
        remaining: None,
        items,
        warnings: Vec::new(),
    })
}
