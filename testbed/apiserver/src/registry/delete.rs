//! DELETE: at once, after a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::validation::ResourceQuirk;
use super::{admission, commit, graceful_deletion, list, options, served};
use crate::admission::{self as policy, Request};
use crate::call::{Call, DeleteOptions, Outcome};
use crate::server::{ApiServer, key_of};
use crate::storage::Key;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion does to an object.
enum Step {
    /// It goes.
    Remove,
    /// It stays, marked.
    Mark(Value),
    /// It is marked and goes: a grace period of nothing.
    MarkAndRemove(Value),
    /// It is already on its way.
    Pending,
}

pub(super) fn delete(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    validate_options(&call.options.delete)?;
    match delete_one(server, call) {
        Err(error) => Err(error.after_warnings(orphan_warning(call))),
        Ok(Outcome::Object {
            code,
            object,
            mut warnings,
        }) => {
            warnings.splice(0..0, orphan_warning(call));
            Ok(Outcome::Object { code, object, warnings })
        }
        Ok(other) => Ok(other),
    }
}

fn delete_one(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let name = call.name.as_deref().unwrap_or_default();
    let resource = &call.resource;
    let key = key_of(&resource.storage, call.namespace.as_deref(), name);
    loop {
        let Some(stored) = server.store().get(&key) else {
            return Err(ApiError::not_found(&resource.group_resource(), name));
        };
        let live = served(resource, &stored);
        if graceful_deletion::applies(resource, &live) {
            return graceful_deletion::delete(server, call, &key);
        }
        check_preconditions(call, &live)?;
        admission::delete(call, name)?;
        policy::validate(server, &Request::delete(call, &live))?;
        let step = decide(server, call, &live);
        if let Some(outcome) = carry_out(server, call, &key, &stored, live, step)? {
            return Ok(outcome);
        }
    }
}

fn validate_options(delete: &DeleteOptions) -> Result<(), ApiError> {
    let Some(policy) = delete.propagation_policy.as_deref() else {
        return Ok(());
    };
    let mut errors = Vec::new();
    if delete.orphan_dependents.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, detail));
    }
    if !matches!(policy, "Foreground" | "Background" | "Orphan") {
        let valid = ["Foreground", "Background", "Orphan", "nil"];
        errors.push(FieldError::not_supported("propagationPolicy", policy, &valid));
    }
    options::invalid_options("DeleteOptions", &errors)
}

fn check_preconditions(call: &Call, live: &Value) -> Result<(), ApiError> {
    let delete = &call.options.delete;
    let refuse = |why: String| ApiError::conflict(&call.resource.group_kind(), object::name(live), &why);
    let (uid, version) = (object::uid(live), object::resource_version(live));
    if let Some(wanted) = delete.uid.as_deref().filter(|wanted| *wanted != uid) {
        return Err(refuse(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )));
    }
    if let Some(wanted) = delete.resource_version.as_deref().filter(|wanted| *wanted != version) {
        return Err(refuse(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )));
    }
    Ok(())
}

fn decide(server: &ApiServer, call: &Call, live: &Value) -> Step {
    let mut object = live.clone();
    let now = server.clock().now();
    let graceful = match graceful(call, &mut object, now) {
        Grace::Pending => return Step::Pending,
        Grace::None => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    let finalizers = gc_finalizers(call, live);
    object::set_finalizers(&mut object, &finalizers);
    match (graceful, finalizers.is_empty()) {
        (None, true) => Step::Remove,
        (None, false) => {
            mark_deleting(&mut object, now);
            Step::Mark(object)
        }
        (Some(0), true) => Step::MarkAndRemove(object),
        (Some(_), _) => Step::Mark(object),
    }
}

enum Grace {
    /// The kind or the object goes at once.
    None,
    /// The object has been marked to stay this long.
    Seconds(i64),
    /// It is being deleted and nothing shorter was asked for.
    Pending,
}

/// Marks the objects of kinds that stay for a while.
fn graceful(call: &Call, object: &mut Value, now: Timestamp) -> Grace {
    let requested = call.options.delete.grace_period_seconds;
    let requested = requested.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(seconds) = call.resource.strategy.grace_period(object, requested) else {
        return Grace::None;
    };
    if !object::is_terminating(object) {
        mark(object, add_seconds(now, seconds), seconds);
        bump_generation(object);
        return Grace::Seconds(seconds);
    }
    let granted = object::metadata(object)
        .and_then(|meta| meta.get("deletionGracePeriodSeconds"))
        .and_then(Value::as_i64)
        .unwrap_or(0);
    if granted == 0 {
        return Grace::None;
    }
    let Some(mut period) = requested.filter(|period| *period < granted) else {
        return Grace::Pending;
    };
    let due = object::meta_str(object, "deletionTimestamp").parse().unwrap_or(now);
    let mut shortened = add_seconds(due, period - granted);
    if shortened < now {
        shortened = now;
        period = period.min(1);
    }
    mark(object, shortened, period);
    Grace::Seconds(period)
}

fn add_seconds(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(at)
}

fn mark(object: &mut Value, due: Timestamp, seconds: i64) {
    let due = due.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    object::set_or_remove(object, "deletionTimestamp", Some(due.into()));
    object::set_or_remove(object, "deletionGracePeriodSeconds", Some(seconds.into()));
}

fn bump_generation(object: &mut Value) {
    let generation = object::generation(object);
    if generation > 0 {
        object::set_or_remove(object, "generation", Some((generation + 1).into()));
    }
}

/// Marks an object that stays only for its finalizers.
fn mark_deleting(object: &mut Value, now: Timestamp) {
    if !object::is_terminating(object) {
        bump_generation(object);
    }
    let due: Option<Timestamp> = object::meta_str(object, "deletionTimestamp").parse().ok();
    match due.filter(|due| *due <= now) {
        Some(_) => object::set_or_remove(object, "deletionGracePeriodSeconds", Some(0.into())),
        None => mark(object, now, 0),
    }
}

/// The finalizers with the ones the garbage collector works on added or taken away.
pub(super) fn gc_finalizers(call: &Call, live: &Value) -> Vec<String> {
    let current = object::finalizers(live);
    let events = call.resource.plural == "events";
    let (orphan, foreground) = if events {
        (false, false)
    } else {
        let orphans = ResourceQuirk::of(&call.resource).orphans;
        dependents(&call.options.delete, &current, orphans)
    };
    let mut wanted: Vec<String> = current
        .iter()
        .filter(|f| !matches!(**f, ORPHAN | FOREGROUND))
        .map(ToString::to_string)
        .collect();
    wanted.extend(orphan.then(|| ORPHAN.to_owned()));
    wanted.extend(foreground.then(|| FOREGROUND.to_owned()));
    let same = wanted.len() == current.len() && wanted.iter().all(|f| current.contains(&f.as_str()));
    if same {
        current.iter().map(ToString::to_string).collect()
    } else {
        wanted
    }
}

/// Whether dependents are orphaned, and whether they go first: by the options, else by what the
/// object already says, else by its kind.
fn dependents(delete: &DeleteOptions, current: &[&str], orphans: bool) -> (bool, bool) {
    if let Some(orphan) = delete.orphan_dependents {
        return (orphan, false);
    }
    match delete.propagation_policy.as_deref() {
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some(_) => (false, false),
        None => match current.iter().find(|f| matches!(**f, ORPHAN | FOREGROUND)) {
            Some(&ORPHAN) => (true, false),
            Some(_) => (false, true),
            None => (orphans, false),
        },
    }
}

/// `None` when somebody else was faster.
fn carry_out(
    server: &ApiServer,
    call: &Call,
    key: &Key,
    stored: &Arc<Value>,
    live: Arc<Value>,
    step: Step,
) -> Result<Option<Outcome>, ApiError> {
    let dry_run = call.options.dry_run;
    match step {
        Step::Pending => Ok(Some(gone(call, live))),
        Step::Remove if dry_run => Ok(Some(gone(call, live))),
        Step::Remove => Ok(remove(server, call, key, stored)),
        Step::Mark(object) | Step::MarkAndRemove(object) if dry_run => Ok(Some(stays(call, object.into()))),
        Step::Mark(object) => {
            let written = commit::put(server, call, key, Some(stored), object)?;
            Ok(written.ok().map(|now| stays(call, served(&call.resource, &now))))
        }
        Step::MarkAndRemove(object) => match commit::put(server, call, key, Some(stored), object)? {
            Ok(now) => Ok(remove(server, call, key, &now)),
            Err(_) => Ok(None),
        },
    }
}

fn remove(server: &ApiServer, call: &Call, key: &Key, stored: &Arc<Value>) -> Option<Outcome> {
    let last = server.store().commit(key, Some(stored), None).ok()?;
    Some(gone(call, served(&call.resource, &last)))
}

/// Jobs leave their Pods behind, which few expect.
fn orphan_warning(call: &Call) -> Vec<String> {
    let delete = &call.options.delete;
    let unsaid = delete.propagation_policy.is_none() && delete.orphan_dependents.is_none();
    if !unsaid || (call.resource.group.as_str(), call.resource.plural.as_str()) != ("batch", "jobs") {
        return Vec::new();
    }
    let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
    vec![warning.to_owned()]
}

fn stays(call: &Call, object: Arc<Value>) -> Outcome {
    let code = if call.options.delete.orphan_dependents == Some(false) {
        202
    } else {
        200
    };
    Outcome::Object {
        code,
        object,
        warnings: Vec::new(),
    }
}

fn gone(call: &Call, mut object: Arc<Value>) -> Outcome {
    if ResourceQuirk::of(&call.resource).returns_deleted {
        if call.resource.strategy.shows_otherwise() {
            call.resource.strategy.show(Arc::make_mut(&mut object));
        }
        return Outcome::Object {
            code: 200,
            object,
            warnings: Vec::new(),
        };
    }
    let mut details = Map::new();
    details.insert("name".into(), object::name(&object).into());
    if !call.resource.group.is_empty() {
        details.insert("group".into(), call.resource.group.as_str().into());
    }
    details.insert("kind".into(), call.resource.plural.as_str().into());
    details.insert("uid".into(), object::uid(&object).into());
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    });
    Outcome::Object {
        code: 200,
        object: status.into(),
        warnings: Vec::new(),
    }
}

/// Deletes everything a list selects and answers with the list.
pub(super) async fn delete_collection(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    validate_options(&call.options.delete)?;
    let mut outcome = list::list(server, call).await?;
    if let Outcome::List { items, warnings, .. } = &mut outcome {
        for item in items {
            let mut one = call.clone();
            one.name = Some(object::name(item).to_owned());
            one.namespace = Some(object::namespace(item).to_owned()).filter(|ns| !ns.is_empty());
            match delete_one(server, &one) {
                Err(error) if error.code != 404 => {
                    return Err(error.after_warnings(orphan_warning(call)));
                }
                _ => {}
            }
        }
        *warnings = orphan_warning(call);
    }
    Ok(outcome)
}
