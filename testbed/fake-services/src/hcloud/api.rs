//! The calls clients may make, each from its path to its answer.
//!
//! Admission (token, rate limit, faults) is over when a call gets here; nothing here knows of it.

use aplomb_apimachinery::query::Query;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::config::SameServer;
use super::error::ApiError;
use super::json;
use super::listing::Listing;
use super::model::{ActionRecord, Labels};
use super::store::{Course, Store};

/// One admitted request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) now: Timestamp,
    pub(super) method: &'a Method,
    /// Without `/v1`.
    pub(super) path: &'a str,
    pub(super) query: &'a Query,
    pub(super) body: &'a [u8],
    /// The project of the token.
    pub(super) project: &'a str,
    /// How an action that this call begins will go.
    pub(super) course: Course,
    pub(super) same_server: SameServer,
}

/// An answer that is no refusal. `None` has no body.
pub(super) type Answer = (StatusCode, Option<Value>);

const RESOURCE_ORDER: [&str; 3] = ["id", "name", "created"];
const ACTION_ORDER: [&str; 6] = ["id", "command", "status", "progress", "started", "finished"];

/// Carries a call out.
pub(super) fn perform(store: &mut Store, call: &Call<'_>) -> Result<Answer, ApiError> {
    let segments: Vec<&str> = call.path.split('/').skip(1).collect();
    match segments.as_slice() {
        ["servers"] => only(call, &Method::GET).and_then(|()| servers(store, call)),
        ["servers", id] => server(store, call, id),
        ["floating_ips"] => only(call, &Method::GET).and_then(|()| floating_ips(store, call)),
        ["floating_ips", "actions"] => all_actions(store, call, None),
        ["floating_ips", "actions", id] => one_action(store, call, id, None),
        ["floating_ips", id] => floating_ip(store, call, id),
        ["floating_ips", id, "actions"] => all_actions(store, call, Some(id)),
        ["floating_ips", id, "actions", "assign"] => assign(store, call, id),
        ["floating_ips", id, "actions", "unassign"] => unassign(store, call, id),
        ["floating_ips", id, "actions", action] => one_action(store, call, action, Some(id)),
        ["volumes", id, "actions", verb @ ("attach" | "detach")] => volume(store, call, id, verb),
        ["actions"] => actions(store, call),
        ["actions", id] => one_action(store, call, id, None),
        _ => Err(ApiError::new("not_found", "no such endpoint")),
    }
}

fn servers(store: &Store, call: &Call<'_>) -> Result<Answer, ApiError> {
    let listing = Listing::of(call.query, &RESOURCE_ORDER)?;
    let mine = store.servers.values();
    let mine = mine.filter(|server| call.sees(server.project.as_deref()));
    ok(listing.answer("servers", mine.map(|server| json::server(store, server))))
}

fn server(store: &mut Store, call: &Call<'_>, id: &str) -> Result<Answer, ApiError> {
    let missing = |id| ApiError::not_found("server", id);
    let id = number("server", id)?;
    let found = store.servers.get(&id).ok_or_else(|| missing(id))?;
    if !call.sees(found.project.as_deref()) {
        return Err(missing(id));
    }
    match *call.method {
        Method::GET => ok(json!({"server": json::server(store, found)})),
        Method::DELETE => {
            let action = store.delete_server(call.now, id, call.course.clone())?;
            ok(json!({"action": json::action(&action, call.now)}))
        }
        _ => Err(not_allowed()),
    }
}

fn floating_ips(store: &Store, call: &Call<'_>) -> Result<Answer, ApiError> {
    let listing = Listing::of(call.query, &RESOURCE_ORDER)?;
    let mine = store.floating_ips.values();
    let mine = mine.filter(|floating_ip| call.sees(floating_ip.project.as_deref()));
    ok(listing.answer("floating_ips", mine.map(json::floating_ip)))
}

fn floating_ip(store: &mut Store, call: &Call<'_>, id: &str) -> Result<Answer, ApiError> {
    let id = visible(store, call, id)?;
    match *call.method {
        Method::GET => {
            let shown = json::floating_ip(store.floating_ip(id)?);
            ok(json!({"floating_ip": shown}))
        }
        Method::PUT => update(store, call, id),
        Method::DELETE => {
            store.delete_floating_ip(id)?;
            Ok((StatusCode::NO_CONTENT, None))
        }
        _ => Err(not_allowed()),
    }
}

/// What a `PUT` of a floating IP may change. Labels are replaced as a whole.
#[derive(Deserialize)]
struct Update {
    name: Option<String>,
    #[serde(default, deserialize_with = "given")]
    description: Option<Option<String>>,
    labels: Option<Labels>,
}

fn update(store: &mut Store, call: &Call<'_>, id: u64) -> Result<Answer, ApiError> {
    let update: Update = read(call.body)?;
    let project = store.floating_ip(id)?.project.clone();
    let taken = |name: &String| {
        let mut others = store.floating_ips.values();
        others.any(|other| other.id != id && other.project == project && other.name == *name)
    };
    if update.name.as_ref().is_some_and(taken) {
        let text = "floating IP with this name already exists";
        return Err(ApiError::new("uniqueness_error", text));
    }
    let Some(found) = store.floating_ips.get_mut(&id) else {
        return Err(ApiError::not_found("floating_ip", id));
    };
    found.name = update.name.unwrap_or_else(|| found.name.clone());
    found.description = update.description.unwrap_or_else(|| found.description.clone());
    found.labels = update.labels.unwrap_or_else(|| found.labels.clone());
    ok(json!({"floating_ip": json::floating_ip(found)}))
}

#[derive(Deserialize)]
struct Target {
    server: Option<u64>,
}

fn assign(store: &mut Store, call: &Call<'_>, id: &str) -> Result<Answer, ApiError> {
    only(call, &Method::POST)?;
    let id = visible(store, call, id)?;
    let server = target(call)?;
    let known = store.servers.get(&server);
    if known.is_some_and(|server| !call.sees(server.project.as_deref())) {
        return Err(ApiError::not_found("server", server));
    }
    let held = store.floating_ip(id)?.server == Some(server);
    if held && call.same_server == SameServer::Refused {
        let text = "floating IP is already assigned to this server";
        return Err(ApiError::new("floating_ip_assigned", text));
    }
    let action = store.assign(call.now, id, server, call.course.clone())?;
    begun(call, &action)
}

fn unassign(store: &mut Store, call: &Call<'_>, id: &str) -> Result<Answer, ApiError> {
    only(call, &Method::POST)?;
    let id = visible(store, call, id)?;
    let action = store.unassign(call.now, id, call.course.clone())?;
    begun(call, &action)
}

fn volume(store: &mut Store, call: &Call<'_>, id: &str, verb: &str) -> Result<Answer, ApiError> {
    only(call, &Method::POST)?;
    let (volume, server) = (number("volume", id)?, target(call)?);
    let command = format!("{verb}_volume");
    let course = call.course.clone();
    let action = store.attach_volume(call.now, &command, volume, server, course)?;
    begun(call, &action)
}

/// `GET /actions`: only by id since January 2025.
fn actions(store: &Store, call: &Call<'_>) -> Result<Answer, ApiError> {
    only(call, &Method::GET)?;
    let listing = Listing::of(call.query, &ACTION_ORDER)?;
    if !listing.names_ids() {
        let text = "listing arbitrary actions was removed: give the ids (?id=1&id=2)";
        return Err(ApiError::new("deprecated_api_endpoint", text));
    }
    let mine = mine(store, call);
    ok(listing.answer("actions", mine.map(|action| json::action(action, call.now))))
}

fn all_actions(store: &Store, call: &Call<'_>, of: Option<&str>) -> Result<Answer, ApiError> {
    only(call, &Method::GET)?;
    let of = of.map(|id| visible(store, call, id)).transpose()?;
    let listing = Listing::of(call.query, &ACTION_ORDER)?;
    let about = mine(store, call).filter(|action| concerns(action, of));
    ok(listing.answer("actions", about.map(|action| json::action(action, call.now))))
}

fn one_action(store: &Store, call: &Call<'_>, id: &str, of: Option<&str>) -> Result<Answer, ApiError> {
    only(call, &Method::GET)?;
    let of = of.map(|id| visible(store, call, id)).transpose()?;
    let id = number("action", id)?;
    let found = mine(store, call).find(|action| action.id == id);
    let found = found.filter(|action| of.is_none() || concerns(action, of));
    let found = found.ok_or_else(|| ApiError::not_found("action", id))?;
    ok(json!({"action": json::action(found, call.now)}))
}

fn mine<'a>(store: &'a Store, call: &'a Call<'_>) -> impl Iterator<Item = &'a ActionRecord> {
    let all = store.actions.values();
    all.filter(|action| call.sees(action.project.as_deref()))
}

fn concerns(action: &ActionRecord, floating_ip: Option<u64>) -> bool {
    let mut resources = action.resources.iter();
    resources.any(|r| r.kind == "floating_ip" && floating_ip.is_none_or(|id| r.id == id))
}

impl Call<'_> {
    /// A resource of no project is in every one.
    fn sees(&self, project: Option<&str>) -> bool {
        project.is_none_or(|project| project == self.project)
    }
}

fn visible(store: &Store, call: &Call<'_>, id: &str) -> Result<u64, ApiError> {
    let id = number("floating_ip", id)?;
    let found = store.floating_ip(id)?;
    if call.sees(found.project.as_deref()) {
        Ok(id)
    } else {
        Err(ApiError::not_found("floating_ip", id))
    }
}

fn target(call: &Call<'_>) -> Result<u64, ApiError> {
    let target: Target = read(call.body)?;
    let missing = || ApiError::invalid("server", "Missing data for required field.");
    target.server.ok_or_else(missing)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        if error.is_data() {
            ApiError::new("invalid_input", format!("invalid input: {error}"))
        } else {
            ApiError::new("json_error", "invalid JSON in the request body")
        }
    })
}

/// Tells `null` from absent.
fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

fn number(kind: &str, text: &str) -> Result<u64, ApiError> {
    text.parse()
        .map_err(|_| ApiError::new("not_found", format!("{kind} '{text}' not found")))
}

fn only(call: &Call<'_>, method: &Method) -> Result<(), ApiError> {
    if call.method == method {
        Ok(())
    } else {
        Err(not_allowed())
    }
}

fn not_allowed() -> ApiError {
    ApiError::new("method_not_allowed", "method is not allowed here")
}

fn begun(call: &Call<'_>, action: &ActionRecord) -> Result<Answer, ApiError> {
    let body = json!({"action": json::action(action, call.now)});
    Ok((StatusCode::CREATED, Some(body)))
}

#[allow(clippy::unnecessary_wraps, reason = "every handler ends with it or with a refusal")]
fn ok(body: Value) -> Result<Answer, ApiError> {
    Ok((StatusCode::OK, Some(body)))
}
