//! LIST: what is selected, at the version that was asked for, a page at a time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::get::{version, wait_until_fresh};
use super::selector::Selection;
use super::token::Token;
use super::{options, served};
use crate::call::{Call, Options, Outcome};
use crate::server::ApiServer;
use crate::storage::Snapshot;

pub(super) async fn list(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let selection = Selection::of(call, || validate(&call.options))?;
    let token = token(&call.options)?;
    let snapshot = snapshot(server, call, &selection, token.as_ref()).await?;
    Ok(page(call, &selection, token.as_ref(), &snapshot))
}

fn validate(options: &Options) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let field = "resourceVersionMatch";
    let wanted = options.resource_version.as_deref().unwrap_or_default();
    if let Some(rule) = options
        .resource_version_match
        .as_deref()
        .filter(|rule| !rule.is_empty())
    {
        if wanted.is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if options.continue_token.as_deref().is_some_and(|token| !token.is_empty()) {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if !matches!(rule, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(field, rule, &["Exact", "NotOlderThan", ""]));
        }
        if rule == "Exact" && wanted == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    if options.send_initial_events.is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", detail));
    }
    options::invalid_options("ListOptions", &errors)
}

fn token(options: &Options) -> Result<Option<Token>, ApiError> {
    let Some(text) = options.continue_token.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let token = Token::decode(text).map_err(|why| ApiError::bad_request(format!("invalid continue token: {why}")))?;
    let wanted = options.resource_version.as_deref().unwrap_or_default();
    if !matches!(wanted, "" | "0") {
        let message = "specifying resource version is not allowed when using continue";
        return Err(ApiError::bad_request(message));
    }
    Ok(Some(token))
}

/// The objects at the version the request asks for.
async fn snapshot(
    server: &ApiServer,
    call: &Call,
    selection: &Selection,
    token: Option<&Token>,
) -> Result<Snapshot, ApiError> {
    let options = &call.options;
    let wanted = version(options.resource_version.as_deref())
        .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?;
    let resource = &call.resource.storage;
    if let Some(token) = token {
        let Ok(revision) = u64::try_from(token.revision) else {
            return Ok(newest(server, call));
        };
        wait_until_fresh(server, revision).await?;
        return server
            .store()
            .snapshot_at(resource, revision)
            .map_err(|_| expired_token(token));
    }
    wait_until_fresh(server, wanted).await?;
    let rule = options.resource_version_match.as_deref().unwrap_or_default();
    let paged = options.limit.is_some_and(|limit| limit > 0) && !is_lookup(call, selection);
    // Before there was a choice, a page of a named version meant exactly that version.
    let exact = rule == "Exact" || (rule.is_empty() && paged && wanted > 0);
    if !exact {
        return Ok(newest(server, call));
    }
    server
        .store()
        .snapshot_at(resource, wanted)
        .map_err(|_| ApiError::expired("The resourceVersion for the provided list is too old."))
}

/// One name in one place is looked up, not listed.
fn is_lookup(call: &Call, selection: &Selection) -> bool {
    let one_place = !call.resource.namespaced || selection.namespace().is_some();
    one_place && selection.single_name().is_some()
}

fn newest(server: &ApiServer, call: &Call) -> Snapshot {
    let resource = &call.resource.storage;
    match server.as_of() {
        None => server.store().snapshot(resource),
        Some(revision) => {
            let past = server.store().snapshot_at(resource, revision);
            past.unwrap_or_else(|_| server.store().snapshot(resource))
        }
    }
}

fn expired_token(token: &Token) -> ApiError {
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    error.continue_token = Some(
        Token {
            revision: -1,
            start: token.start.clone(),
        }
        .encode(),
    );
    error
}

fn page(call: &Call, selection: &Selection, token: Option<&Token>, snapshot: &Snapshot) -> Outcome {
    let resource = &call.resource;
    let prefix = prefix(call, selection);
    let start = format!("{prefix}{}", token.map_or("", |token| token.start.as_str()));
    // A list at version 0 is answered from what is at hand, all of it.
    let any = call.options.resource_version.as_deref() == Some("0") && token.is_none();
    let limit = if any { None } else { limit(call) };
    let mut items = Vec::new();
    let mut continue_token = None;
    let mut remaining = None;
    let index = selection
        .index(resource)
        .filter(|_| token.is_none() && !names_version(call));
    let at_hand = |stored: &Value| index.is_none_or(|index| index.holds(resource, stored));
    let mut rest = in_prefix(&snapshot.objects, &start, &prefix);
    while let Some((key, stored)) = rest.next() {
        let object = served(resource, stored);
        if !selection.matches(resource, &object) {
            continue;
        }
        items.push(object);
        if Some(items.len()) == limit {
            let left = rest.filter(|(_, other)| at_hand(other)).count();
            if left > 0 && (token.is_some() || !is_lookup(call, selection)) {
                let revision = i64::try_from(snapshot.revision).unwrap_or(i64::MAX);
                continue_token = Some(Token::after(&key[prefix.len()..], revision).encode());
                remaining = selection.is_empty().then(|| i64::try_from(left).unwrap_or(i64::MAX));
            }
            break;
        }
    }
    // Lists of custom resources say so when there is no more.
    let continue_token = continue_token.or_else(|| resource.strategy.is_custom().then(String::new));
    Outcome::List {
        resource_version: snapshot.revision,
        continue_token,
        remaining,
        items,
        warnings: Vec::new(),
    }
}

/// Whether it is a list of exactly one version, which no index is kept of.
fn names_version(call: &Call) -> bool {
    let options = &call.options;
    match options.resource_version_match.as_deref() {
        None | Some("") => !matches!(options.resource_version.as_deref(), None | Some("" | "0")),
        Some(rule) => rule == "Exact",
    }
}

/// How many items the client takes at once.
fn limit(call: &Call) -> Option<usize> {
    let limit = usize::try_from(call.options.limit?).ok()?;
    (limit > 0).then_some(limit)
}

fn prefix(call: &Call, selection: &Selection) -> String {
    match selection.namespace().filter(|_| call.resource.namespaced) {
        Some(namespace) => format!("{namespace}/"),
        None => String::new(),
    }
}

fn in_prefix<'a>(
    objects: &'a BTreeMap<String, Arc<Value>>,
    start: &str,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a String, &'a Arc<Value>)> {
    objects
        .range::<str, _>((Bound::Included(start), Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
}
