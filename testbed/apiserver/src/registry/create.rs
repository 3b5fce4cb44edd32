//! POST: a new object from a body.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::ApiError;
use aplomb_builtin_kinds::usage::QuotaRequest;
use serde_json::Value;

use super::quota::{self, Charged};
use super::validation::ResourceQuirk;
use super::{Managers, Written, admission, commit, decode, metadata, options, served};
use crate::admission::{self as policy, Request};
use crate::call::{Call, Outcome};
use crate::server::{ApiServer, key_of};

/// How often another generated name is tried.
const NAME_ATTEMPTS: usize = 8;
/// What `generateName` may keep so that five more characters fit a DNS label.
const GENERATE_NAME_MAX: usize = 58;

pub(super) fn create(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    options::validate(call, "CreateOptions")?;
    let decode::Body {
        mut object,
        mut warnings,
    } = decode::body(call)?;
    metadata::wipe_system_fields(&mut object);
    if let Err(error) = set_namespace(call, &mut object) {
        return Err(error.after_warnings(warnings));
    }
    warnings.extend(duplicate_owner_warning(&mut object, false));
    let object = Managers::of(server, call).update(None, object);
    let written = admit(server, call, object, &mut warnings);
    let Written { object, warnings: more } = match written {
        Ok(written) => written,
        Err(error) => return Err(error.after_warnings(warnings)),
    };
    warnings.extend(more);
    Ok(Outcome::Object {
        code: 201,
        object,
        warnings,
    })
}

fn admit(server: &ApiServer, call: &Call, mut object: Value, warnings: &mut Vec<String>) -> Result<Written, ApiError> {
    admission::create(server, call, &object)?;
    warnings.extend(duplicate_owner_warning(&mut object, true));
    with_generated_name(server, call, object)
}

/// Sets the namespace of the path, or refuses another one.
pub(super) fn set_namespace(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    let wanted = call
        .namespace
        .as_deref()
        .filter(|_| call.resource.namespaced)
        .unwrap_or_default();
    let stated = object::namespace(object);
    if stated == wanted {
        return Ok(());
    }
    if !stated.is_empty() && !wanted.is_empty() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object::set_or_remove(object, "namespace", (!wanted.is_empty()).then(|| wanted.into()));
    Ok(())
}

/// Folds duplicate owner references and says so.
pub(super) fn duplicate_owner_warning(object: &mut Value, after_admission: bool) -> Option<String> {
    let duplicates = metadata::dedup_owner_references(object);
    if duplicates.is_empty() {
        return None;
    }
    let uids = duplicates.join(", ");
    let when = if after_admission {
        " after mutating admission happens"
    } else {
        ""
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    ))
}

fn with_generated_name(server: &ApiServer, call: &Call, object: Value) -> Result<Written, ApiError> {
    let prefix = object::meta_str(&object, "generateName");
    let stated = object::name(&object).to_owned();
    if prefix.is_empty() || !stated.is_empty() {
        return store_new(server, call, &stated, object);
    }
    let mut refused = None;
    for _ in 0..NAME_ATTEMPTS {
        let mut named = object.clone();
        let kept: String = prefix.chars().take(GENERATE_NAME_MAX).collect();
        let name = format!("{kept}{}", server.clock().name_suffix());
        object::set_or_remove(&mut named, "name", Some(name.into()));
        match store_new(server, call, "", named) {
            Err(error) if error.reason == "AlreadyExists" => refused = Some(error),
            other => return other,
        }
    }
    Err(refused.unwrap_or_else(|| ApiError::internal("no name was generated")))
}

/// Fills in, checks and stores an object that is not there yet and came with the name `stated`.
pub(super) fn store_new(server: &ApiServer, call: &Call, stated: &str, mut object: Value) -> Result<Written, ApiError> {
    let resource = &call.resource;
    let warnings = complete(server, call, &mut object)?;
    // Held until the object is stored.
    let _charged = match admitted(server, call, stated, &object) {
        Ok(charged) => charged,
        Err(error) => return Err(error.after_warnings(warnings)),
    };
    let name = object::name(&object).to_owned();
    let key = key_of(&resource.storage, call.namespace.as_deref(), &name);
    let generated = !object::meta_str(&object, "generateName").is_empty();
    if call.options.dry_run {
        return match server.store().get(&key) {
            Some(there) => Err(exists(call, (&name, generated), &there).after_warnings(warnings)),
            None => Ok(Written {
                object: super::as_if_stored(resource, object).into(),
                warnings,
            }),
        };
    }
    let stated = object::resource_version(&object);
    if stated.parse::<u64>().is_ok_and(|version| version != 0) {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::new(500, "", message).after_warnings(warnings));
    }
    match commit::put(server, call, &key, None, object)? {
        Ok(stored) => Ok(Written {
            object: served(resource, &stored),
            warnings,
        }),
        Err(moved) => {
            let error = exists(call, (&name, generated), &moved.0.unwrap_or_default());
            Err(error.after_warnings(warnings))
        }
    }
}

/// Fills in and checks a new object; returns what its writer is to be warned of.
fn complete(server: &ApiServer, call: &Call, object: &mut Value) -> Result<Vec<String>, ApiError> {
    let resource = &call.resource;
    admission::fill(server, call, object)?;
    fill_system_fields(server, object);
    commit::allocate(server, call, None, object)?;
    resource.strategy.prepare_create(object);
    validate(call, object)?;
    let mut warnings = resource.strategy.warnings(object);
    warnings.extend(options::finalizer_warnings(resource, object, None));
    Ok(warnings)
}

/// What the plugins, the policies and the quotas have to say, in this order.
fn admitted<'a>(server: &'a ApiServer, call: &Call, stated: &str, object: &Value) -> Result<Charged<'a>, ApiError> {
    admission::judge(server, call, "", object, None)?;
    policy::validate(server, &Request::create(call, stated, object))?;
    let asked = QuotaRequest {
        subresource: "",
        object,
        old: None,
    };
    quota::charge(server, call, &asked)
}

fn fill_system_fields(server: &ApiServer, object: &mut Value) {
    let created = server.clock().now_seconds();
    object::set_or_remove(object, "creationTimestamp", Some(created.into()));
    object::set_or_remove(object, "uid", Some(server.clock().uuid().into()));
}

fn validate(call: &Call, object: &Value) -> Result<(), ApiError> {
    options::check_type_meta(&call.resource, object)?;
    let mut errors = Vec::new();
    if ResourceQuirk::of(&call.resource).checks_metadata() {
        errors.extend(metadata::validate_create(&call.resource, object));
        errors.extend(options::finalizer_errors(&call.resource, object));
    }
    errors.extend(call.resource.strategy.validate_create(object));
    errors.extend(options::unchecked_rules(&call.resource, &errors));
    if errors.is_empty() {
        errors = metadata::validate_any(&call.resource, object);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        &call.resource.group_kind(),
        object::name(object),
        &errors,
    ))
}

fn exists(call: &Call, (name, generated): (&str, bool), there: &Value) -> ApiError {
    let resource = call.resource.group_resource();
    let mut error = ApiError::already_exists(&resource, name);
    if generated {
        error.message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            go_quote(name)
        );
        error = error.with_detail("retryAfterSeconds", 1.into());
        error.retry_after = Some(1);
    }
    if object::is_terminating(there) {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}
