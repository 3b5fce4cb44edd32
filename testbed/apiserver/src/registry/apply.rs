//! Server-side apply: a partial object that its manager owns, merged into what is there.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::json;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::decode::go_name;
use super::{Managers, admission, create, metadata, update};
use crate::call::{Call, FieldValidation, Outcome};
use crate::server::ApiServer;

pub(super) fn apply(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let (applied, duplicates) = read(call)?;
    let managers = Managers::of(server, call);
    let force = call.options.force.unwrap_or(false);
    let mut warnings = Vec::new();
    let terms = update::Terms {
        uid: None,
        may_create: call.part == Part::Main || call.resource.strategy.allow_create_on_update(),
        ruled: false,
    };
    let updated = update::change(server, call, &terms, &mut |live| {
        warnings.clear();
        let merged = managers.apply(live, &applied, force)?;
        warnings.extend_from_slice(check_duplicates(call, &duplicates)?);
        let mut object = typed(call, merged, &applied)?;
        call.resource.strategy.default(&mut object);
        check_uid(call, live, &object)?;
        create::set_namespace(call, &mut object)?;
        update::check_name(call, &object)?;
        match live {
            None => admission::create(server, call, &object)?,
            Some(_) => admission::update(server, call)?,
        }
        warnings.extend(create::duplicate_owner_warning(&mut object, true));
        Ok(object)
    });
    update::answer(updated, warnings)
}

/// A built-in kind passes through its Go type. A custom resource is stored as it was merged, and
/// put in order only when it is read back.
fn typed(call: &Call, merged: Value, applied: &Value) -> Result<Value, ApiError> {
    if call.resource.strategy.is_custom() {
        return Ok(merged);
    }
    let place = place_of(&merged);
    let mut object = call.resource.strategy.convert(merged).map_err(|mut error| {
        // The refusal names the object as the body does.
        error.message = error.message.replacen(&place, &place_of(applied), 1);
        error
    })?;
    metadata::normalize(&mut object);
    Ok(object)
}

fn place_of(object: &Value) -> String {
    format!("({}/{};", object::namespace(object), object::name(object))
}

fn read(call: &Call) -> Result<(Value, Vec<String>), ApiError> {
    let refuse = |why: &str| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let document = json::parse(&call.body).map_err(|why| refuse(&why))?;
    if document.value.is_object() {
        let again = document.duplicates.iter().zip(document.lines);
        let told = again.map(|(path, line)| {
            let key = path.rsplit('.').next().unwrap_or_default();
            format!("line {line}: key {} already set in map", go_quote(key))
        });
        return Ok((document.value, told.collect()));
    }
    let what = go_name(&document.value);
    Err(refuse(&format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
    )))
}

/// Duplicate fields are judged after the merge, as the server does: refused, or warned about.
fn check_duplicates<'a>(call: &Call, duplicates: &'a [String]) -> Result<&'a [String], ApiError> {
    match call.options.field_validation {
        FieldValidation::Ignore => Ok(&[]),
        FieldValidation::Strict if !duplicates.is_empty() => Err(ApiError::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            duplicates.join("\n  ")
        ))),
        _ => Ok(duplicates),
    }
}

/// A stated UID means an object that is already there.
fn check_uid(call: &Call, live: Option<&Value>, object: &Value) -> Result<(), ApiError> {
    let uid = object::uid(object);
    if live.is_some() || uid.is_empty() {
        return Ok(());
    }
    let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    let name = call.name.as_deref().unwrap_or_default();
    Err(ApiError::conflict(&call.resource.group_resource(), name, &why))
}
