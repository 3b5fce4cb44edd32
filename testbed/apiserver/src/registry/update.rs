//! PUT, and the part of every change that PUT and the patches share.

use std::sync::Arc;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_builtin_kinds::usage::QuotaRequest;
use aplomb_structured_merge::FieldManager;
use serde_json::Value;

use super::quota::{self, Charged};
use super::validation::{etcd_key, removes_when_finalized};
use super::{Managers, Written, admission, commit, create, decode, options, served, validation};
use crate::admission::{self as policy, Request};
use crate::call::{Call, Outcome};
use crate::mutation::Rule;
use crate::server::{ApiServer, key_of};

/// An object after a change.
#[derive(Debug)]
pub(super) struct Updated {
    pub(super) object: Arc<Value>,
    pub(super) created: bool,
    pub(super) warnings: Vec<String>,
}

/// What a write that may create is answered with; `warnings` are those found before it.
pub(super) fn answer(updated: Result<Updated, ApiError>, mut warnings: Vec<String>) -> Result<Outcome, ApiError> {
    let updated = match updated {
        Ok(updated) => updated,
        Err(error) => return Err(error.after_warnings(warnings)),
    };
    warnings.extend(updated.warnings);
    Ok(Outcome::Object {
        code: if updated.created { 201 } else { 200 },
        object: updated.object,
        warnings,
    })
}

/// What a change is allowed to do besides changing.
#[derive(Debug, Default)]
pub(super) struct Terms<'a> {
    /// Only an object with this UID may be changed.
    pub(super) uid: Option<&'a str>,
    /// A missing object is made.
    pub(super) may_create: bool,
    /// The view through which the object is changed has kept its own rules.
    pub(super) ruled: bool,
}

pub(super) fn update(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    options::validate(call, "UpdateOptions")?;
    let decode::Body {
        mut object,
        mut warnings,
    } = decode::body(call)?;
    let placed = create::set_namespace(call, &mut object);
    if let Err(error) = placed.and_then(|()| check_name(call, &object)) {
        return Err(error.after_warnings(warnings));
    }
    warnings.extend(create::duplicate_owner_warning(&mut object, false));
    let uid = Some(object::uid(&object).to_owned()).filter(|uid| !uid.is_empty());
    let terms = Terms {
        uid: uid.as_deref(),
        may_create: call.resource.strategy.allow_create_on_update(),
        ruled: false,
    };
    let managers = Managers::of(server, call);
    let updated = change(server, call, &terms, &mut |live| {
        let object = managers.update(live, object.clone());
        match live {
            None => admission::create(server, call, &object)?,
            Some(_) => admission::update(server, call)?,
        }
        Ok(object)
    });
    answer(updated, warnings)
}

/// The name in the object must be the one of the path.
pub(crate) fn check_name(call: &Call, object: &Value) -> Result<(), ApiError> {
    let (stated, wanted) = (object::name(object), call.name.as_deref().unwrap_or_default());
    if stated.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if stated != wanted {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({stated}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

/// Changes an object, or what a view shows of it.
pub(super) fn change(
    server: &ApiServer,
    call: &Call,
    terms: &Terms<'_>,
    transform: &mut dyn FnMut(Option<&Value>) -> Result<Value, ApiError>,
) -> Result<Updated, ApiError> {
    let Some(view) = &call.view else {
        return change_object(server, call, terms, transform);
    };
    let whole = Call {
        resource: view.parent().clone(),
        ..call.clone()
    };
    let terms = Terms {
        uid: terms.uid,
        may_create: false,
        ruled: !view.by_rules_of_kind(),
    };
    let now = server.clock().now_seconds();
    let mut updated = change_object(server, &whole, &terms, &mut |live| {
        let live = live.expect("a missing object is refused before it is shown");
        let mut wanted = transform(Some(&view.show(live)?))?;
        admission::refill(server, call, view.name(), live, &mut wanted);
        view.take_back(live, wanted, &now)
    })?;
    updated.object = super::shown_through(&**view, &updated.object)?.into();
    Ok(updated)
}

/// Reads, lets `transform` make the new object from the live one, checks and writes; again when
/// somebody else was faster.
fn change_object(
    server: &ApiServer,
    call: &Call,
    terms: &Terms<'_>,
    transform: &mut dyn FnMut(Option<&Value>) -> Result<Value, ApiError>,
) -> Result<Updated, ApiError> {
    let resource = &call.resource;
    let name = call.name.as_deref().unwrap_or_default();
    let key = key_of(&resource.storage, call.namespace.as_deref(), name);
    loop {
        let Some(stored) = server.store().get(&key) else {
            match missing(server, call, terms, transform) {
                Err(error) if error.reason == "AlreadyExists" => continue,
                other => return other,
            }
        };
        let live = served(resource, &stored);
        let object = changed(server, call, terms, &live, transform)?;
        let warnings = warnings(call, &object, &live);
        // Held until the object is stored.
        let _charged = match admitted(server, call, &object, &live) {
            Ok(charged) => charged,
            Err(error) => return Err(error.after_warnings(warnings)),
        };
        let written = store(server, call, &key, &stored, &live, object)?;
        if let Some(object) = written {
            return Ok(Updated {
                object,
                created: false,
                warnings,
            });
        }
    }
}

/// A change of an object that is not there.
fn missing(
    server: &ApiServer,
    call: &Call,
    terms: &Terms<'_>,
    transform: &mut dyn FnMut(Option<&Value>) -> Result<Value, ApiError>,
) -> Result<Updated, ApiError> {
    if !terms.may_create {
        let name = call.name.as_deref().unwrap_or_default();
        return Err(ApiError::not_found(&call.resource.group_resource(), name));
    }
    if terms.uid.is_some() {
        check_uid(call, terms, &absent(call))?;
    }
    made(server, call, transform)
}

/// The object as it is after the change, by the rules of its kind.
fn changed(
    server: &ApiServer,
    call: &Call,
    terms: &Terms<'_>,
    live: &Value,
    transform: &mut dyn FnMut(Option<&Value>) -> Result<Value, ApiError>,
) -> Result<Value, ApiError> {
    check_uid(call, terms, live)?;
    let mut object = transform(Some(live))?;
    check_version(server, call, &mut object, live)?;
    check_typed(call, &object)?;
    commit::allocate(server, call, Some(live), &mut object)?;
    prepare(server, call, terms, &mut object, live);
    ignore_timestamps(call, live, &mut object);
    if !terms.ruled {
        validation::validate(call, &object, live)?;
    }
    Ok(object)
}

/// What the plugins, the policies and the quotas have to say about a change, in this order.
fn admitted<'a>(server: &'a ApiServer, call: &Call, object: &Value, live: &Value) -> Result<Charged<'a>, ApiError> {
    let subresource = match (&call.view, call.part) {
        (Some(view), _) => view.name(),
        (None, Part::Status) => "status",
        (None, Part::Main) => "",
    };
    admission::judge(server, call, subresource, object, Some(live))?;
    ask_policies(server, call, object, live)?;
    let asked = QuotaRequest {
        subresource,
        object,
        old: Some(live),
    };
    quota::charge(server, call, &asked)
}

/// Policies see a change as the client does.
fn ask_policies(server: &ApiServer, call: &Call, object: &Value, live: &Value) -> Result<(), ApiError> {
    let Some(view) = &call.view else {
        return policy::validate(server, &Request::update(call, object, live));
    };
    let (object, live) = (view.show(object)?, view.show(live)?);
    let (version, kind) = (object::text(&object, "apiVersion"), object::text(&object, "kind"));
    let request = Request::update(call, &object, &live).through(view.name(), version, kind);
    policy::validate(server, &request)
}

/// What a client is told about a change; a status has no say in what is warned about.
fn warnings(call: &Call, object: &Value, live: &Value) -> Vec<String> {
    let resource = &call.resource;
    if call.part == Part::Status {
        return Vec::new();
    }
    let mut warnings = resource.strategy.update_warnings(object, live);
    warnings.extend(options::finalizer_warnings(resource, object, Some(live)));
    warnings
}

/// Judged on what would be stored, which does not tell an empty list from none.
fn ignore_timestamps(call: &Call, live: &Value, object: &mut Value) {
    if call.resource.strategy.is_custom() {
        return FieldManager::ignore_timestamps(live, object);
    }
    if rewrites(live, object) {
        return;
    }
    let mut stored = super::as_if_stored(&call.resource, object.clone());
    FieldManager::ignore_timestamps(live, &mut stored);
    if stored == *live {
        *object = stored;
    }
}

/// Whether some text outside of the metadata is another one now, which is quick to see and true of
/// most changes.
fn rewrites(live: &Value, object: &Value) -> bool {
    let (Value::Object(live), Value::Object(object)) = (live, object) else {
        return matches!((live, object), (Value::String(old), Value::String(new)) if old != new);
    };
    let both = live
        .iter()
        .filter_map(|(name, old)| Some((name, old, object.get(name)?)));
    both.filter(|(name, ..)| *name != "metadata")
        .any(|(_, old, new)| rewrites(old, new))
}

fn made(
    server: &ApiServer,
    call: &Call,
    transform: &mut dyn FnMut(Option<&Value>) -> Result<Value, ApiError>,
) -> Result<Updated, ApiError> {
    let mut object = transform(None)?;
    stated_version(&object)?;
    if !call.options.dry_run {
        object::set_or_remove(&mut object, "resourceVersion", None);
    }
    let name = call.name.as_deref().unwrap_or_default();
    let Written { object, warnings } = create::store_new(server, call, name, object)?;
    Ok(Updated {
        object,
        created: true,
        warnings,
    })
}

/// What a missing object is compared with: nothing but its place.
fn absent(call: &Call) -> Value {
    let namespace = call.namespace.as_deref().unwrap_or_default();
    let name = call.name.as_deref().unwrap_or_default();
    serde_json::json!({"metadata": {"namespace": namespace, "name": name}})
}

fn check_uid(call: &Call, terms: &Terms<'_>, live: &Value) -> Result<(), ApiError> {
    let Some(wanted) = terms.uid.filter(|wanted| *wanted != object::uid(live)) else {
        return Ok(());
    };
    let key = etcd_key(&call.resource, object::namespace(live), object::name(live));
    let uid = object::uid(live);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
    );
    Err(ApiError::conflict(
        &call.resource.group_resource(),
        object::name(live),
        &why,
    ))
}

/// The version an object says it has; 0 when it says none.
fn stated_version(object: &Value) -> Result<u64, ApiError> {
    match object::resource_version(object) {
        "" => Ok(0),
        text => text.parse::<u64>().map_err(|_| {
            let text = aplomb_apimachinery::field::go_quote(text);
            let why = format!("strconv.ParseUint: parsing {text}: invalid syntax");
            ApiError::new(500, "", why)
        }),
    }
}

fn check_version(server: &ApiServer, call: &Call, object: &mut Value, live: &Value) -> Result<(), ApiError> {
    let resource = call.resource.group_resource();
    let stated = stated_version(object)?;
    let current = object::resource_version(live).to_owned();
    if stated == 0 && !call.resource.strategy.allow_unconditional_update() {
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let kind = GroupResource::new(&resource.group, &resource.resource);
        return Err(ApiError::invalid(&kind, object::name(live), &[error]));
    }
    let stale = stated != 0 && stated.to_string() != current;
    if stale && !server.broken(Rule::Conflict) {
        return Err(ApiError::modified(&resource, object::name(live)));
    }
    object::set_or_remove(object, "resourceVersion", Some(current.into()));
    Ok(())
}

/// A patch can take the `apiVersion` of a custom resource away.
fn check_typed(call: &Call, object: &Value) -> Result<(), ApiError> {
    if call.resource.strategy.is_custom() && object::text(object, "apiVersion").is_empty() {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(ApiError::internal(why));
    }
    Ok(())
}

/// What the rules that can be broken on purpose leave undone.
fn break_rules(server: &ApiServer, call: &Call, object: &mut Value, status: Option<Value>) {
    let isolated = !server.broken(Rule::StatusIsolation) || call.part == Part::Status;
    if let Some(map) = object.as_object_mut().filter(|_| !isolated) {
        map.extend(status.map(|status| ("status".to_owned(), status)));
    }
    let generation = object::generation(object);
    if server.broken(Rule::Generation) && generation > 0 {
        object::set_or_remove(object, "generation", Some((generation + 1).into()));
    }
}

fn prepare(server: &ApiServer, call: &Call, terms: &Terms<'_>, object: &mut Value, live: &Value) {
    let of_live = |member: &str| object::meta_value(live, member).cloned();
    if !terms.ruled {
        object::set_or_remove(object, "generation", of_live("generation"));
        let status = object.get("status").cloned();
        call.resource.strategy.prepare_update(object, live, call.part);
        break_rules(server, call, object, status);
    }
    if object::uid(object).is_empty() {
        object::set_or_remove(object, "uid", of_live("uid"));
    }
    object::set_or_remove(object, "creationTimestamp", of_live("creationTimestamp"));
    if object::is_terminating(live) {
        object::set_or_remove(object, "deletionTimestamp", of_live("deletionTimestamp"));
    }
    if object::meta_value(object, "deletionGracePeriodSeconds").is_none() {
        object::set_or_remove(
            object,
            "deletionGracePeriodSeconds",
            of_live("deletionGracePeriodSeconds"),
        );
    }
}

/// Whether the change takes away the last thing that kept a deleted object.
fn is_finalized(object: &Value, live: &Value) -> bool {
    let grace = object::meta_value(live, "deletionGracePeriodSeconds");
    object::is_terminating(live)
        && object::finalizers(object).is_empty()
        && grace.and_then(Value::as_i64).unwrap_or(0) == 0
}

/// `None` when somebody else was faster.
fn store(
    server: &ApiServer,
    call: &Call,
    key: &crate::storage::Key,
    stored: &Arc<Value>,
    live: &Value,
    mut object: Value,
) -> Result<Option<Arc<Value>>, ApiError> {
    let finalized = is_finalized(&object, live) && removes_when_finalized(&call.resource, &object);
    if finalized {
        // It is answered, though no store ever has it.
        object::settle_numbers(&mut object);
    }
    if call.options.dry_run && finalized {
        return Ok(Some(object.into()));
    }
    if call.options.dry_run {
        return Ok(Some(super::as_if_stored(&call.resource, object).into()));
    }
    if finalized && !server.broken(Rule::FinalizerEvent) {
        return Ok(server
            .store()
            .commit(key, Some(stored), None)
            .ok()
            .map(|_| object.into()));
    }
    let last = finalized.then(|| Arc::new(object.clone()));
    match commit::put(server, call, key, Some(stored), object)? {
        Err(_) => Ok(None),
        Ok(now) => match last {
            Some(last) => {
                let gone = server.store().commit(key, Some(&now), None);
                Ok(gone.ok().map(|_| last))
            }
            None => Ok(Some(served(&call.resource, &now))),
        },
    }
}
