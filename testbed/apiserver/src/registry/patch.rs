//! PATCH: JSON patch, merge patch and strategic merge patch. An apply goes to `apply`.

use aplomb_apimachinery::field::{FieldError, go_quote};
use aplomb_apimachinery::json;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::{ApiError, GroupResource};
use aplomb_go_compat as go;
use serde_json::Value;

use super::decode::{TYPE_META, go_name};
use super::jsonpatch::{self, JsonPatch};
use super::strategic::{self, Refusal};
use super::{Managers, admission, apply, create, metadata, options, update};
use crate::call::{Call, FieldValidation, Outcome, PatchType};
use crate::server::ApiServer;

/// A JSON patch may not be longer.
const MAX_OPERATIONS: usize = 10_000;

pub(super) fn patch(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let patch_type = call.patch_type.unwrap_or(PatchType::StrategicMerge);
    let strategic = patch_type == PatchType::StrategicMerge;
    if strategic && call.resource.strategy.patch_meta().is_none() {
        return Err(unsupported(&call.resource));
    }
    options::validate(call, "PatchOptions")?;
    if patch_type == PatchType::Apply {
        return apply::apply(server, call);
    }
    let managers = Managers::of(server, call);
    let mut warnings = Vec::new();
    let terms = update::Terms::default();
    let updated = update::change(server, call, &terms, &mut |live| {
        // Every attempt starts from the live object again, and so do its warnings.
        warnings.clear();
        let live = live.expect("a missing object is refused before it is patched");
        let (mut object, foreign) = patched(call, patch_type, live, &mut warnings)?;
        object = managers.update(Some(live), object);
        if foreign {
            object::set_or_remove(&mut object, "managedFields", None);
        }
        create::set_namespace(call, &mut object)?;
        update::check_name(call, &object)?;
        admission::update(server, call)?;
        warnings.extend(create::duplicate_owner_warning(&mut object, true));
        Ok(object)
    });
    let updated = match updated {
        Ok(updated) => updated,
        Err(error) => return Err(error.after_warnings(warnings)),
    };
    warnings.extend(updated.warnings);
    Ok(Outcome::Object {
        code: 200,
        object: updated.object,
        warnings,
    })
}

/// 415 as the server says it.
fn unsupported(resource: &Resource) -> ApiError {
    let mut types = vec!["application/json-patch+json", "application/merge-patch+json"];
    if !resource.strategy.is_custom() {
        types.push("application/strategic-merge-patch+json");
    }
    types.push("application/apply-patch+yaml");
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        types.join(", ")
    );
    ApiError::new(415, "UnsupportedMediaType", message)
}

/// The live object after a patch, and whether the patch made it a custom resource of a version there
/// is no schema of, whose owners the server forgets.
fn patched(
    call: &Call,
    patch_type: PatchType,
    live: &Value,
    warnings: &mut Vec<String>,
) -> Result<(Value, bool), ApiError> {
    let (result, mut findings) = match patch_type {
        PatchType::StrategicMerge => {
            return strategically_patched(call, live, warnings).map(|object| (object, false));
        }
        PatchType::Json => json_patch(call, live)?,
        _ => merge_patch(call, live)?,
    };
    let text = go::escaped(result.to_string());
    check_type_meta(&call.resource, &result, &text)?;
    if !call.resource.strategy.is_custom() && object::text(&result, "apiVersion").is_empty() {
        return unversioned(call, &result, &text, findings, warnings).map(|object| (object, false));
    }
    let foreign =
        call.resource.strategy.is_custom() && object::text(&result, "apiVersion") != call.resource.api_version();
    let decoded = call.resource.strategy.decode(result).map_err(|error| {
        let why = error
            .message
            .split_once(&format!("cannot be handled as a {}: ", call.resource.kind));
        invalid_patch(&text, why.map_or(error.message.as_str(), |(_, why)| why))
    })?;
    findings.extend(decoded.unknown);
    report(call, &text, findings, warnings)?;
    let mut object = decoded.object;
    metadata::normalize(&mut object);
    call.resource.strategy.default(&mut object);
    Ok((object, foreign))
}

/// The live object after a strategic merge patch, read as an object of the kind.
fn strategically_patched(call: &Call, live: &Value, warnings: &mut Vec<String>) -> Result<Value, ApiError> {
    let strategy = &call.resource.strategy;
    let document = json::parse(&call.body).map_err(ApiError::bad_request)?;
    let mut patch = strategic_members(document.value)?;
    let meta = strategy.patch_meta().ok_or_else(|| unsupported(&call.resource))?;
    let live = live.as_object().cloned().unwrap_or_default();
    let merged = strategic::merge(live, &mut patch, &*meta).map_err(Refusal::answer)?;
    let text = strategic::shown(&Value::Object(patch));
    let decoded = strategy
        .convert_patched(merged)
        .map_err(|why| invalid_patch(&text, &why))?;
    let duplicates = document
        .duplicates
        .iter()
        .map(|path| format!("duplicate field {}", go_quote(path)));
    let findings: Vec<String> = duplicates.chain(decoded.unknown).collect();
    report(call, &text, findings, warnings)?;
    let mut object = decoded.object;
    metadata::normalize(&mut object);
    strategy.default(&mut object);
    Ok(object)
}

/// What a strategic merge patch states; null states nothing.
fn strategic_members(patch: Value) -> Result<serde_json::Map<String, Value>, ApiError> {
    match patch {
        Value::Object(patch) => Ok(patch),
        Value::Null => Ok(serde_json::Map::new()),
        other => {
            let what = go_name(&other);
            Err(ApiError::bad_request(format!(
                "json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            )))
        }
    }
}

/// Fields that are there twice or not known are a refusal, a warning or nothing, as the request
/// wants it. `text` is what the refusal quotes.
fn report(call: &Call, text: &str, findings: Vec<String>, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    match call.options.field_validation {
        FieldValidation::Strict if !findings.is_empty() => {
            let why = format!("strict decoding error: {}", findings.join(", "));
            return Err(invalid_patch(text, &why));
        }
        FieldValidation::Strict | FieldValidation::Warn => warnings.extend(findings),
        FieldValidation::Ignore => {}
    }
    Ok(())
}

/// What is no object has no kind; a custom resource must not have lost its kind. That it lost its
/// version is noticed later, once the version it is a change of is the right one.
fn check_type_meta(resource: &Resource, result: &Value, text: &str) -> Result<(), ApiError> {
    if !result.is_object() {
        let what = go_name(result);
        let why = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type {TYPE_META}"
        );
        return Err(invalid_patch(text, &why));
    }
    if !resource.strategy.is_custom() {
        return Ok(());
    }
    if object::text(result, "kind").is_empty() {
        let why = format!("Object 'Kind' is missing in '{text}'");
        return Err(invalid_patch(text, &why));
    }
    if result.get("apiVersion").is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(invalid_patch(text, why));
    }
    Ok(())
}

/// Without a version the server reads the result into its internal type, which knows none of the
/// fields: nothing is left but the kind, and the missing name is refused soon after.
fn unversioned(
    call: &Call,
    result: &Value,
    text: &str,
    mut findings: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    let members = result.as_object().into_iter().flat_map(serde_json::Map::keys);
    let unknown = members.filter(|member| !matches!(member.as_str(), "apiVersion" | "kind"));
    findings.extend(unknown.map(|member| format!("unknown field {}", go_quote(member))));
    report(call, text, findings, warnings)?;
    let resource = &call.resource;
    Ok(serde_json::json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {},
    }))
}

fn invalid_patch(text: &str, why: &str) -> ApiError {
    let error = FieldError::invalid("patch", text, why);
    let mut refused = ApiError::invalid(&GroupResource::default(), "", &[error]);
    refused.message = format!(" \"\" is invalid: patch: Invalid value: {}: {why}", go_quote(text));
    refused
}

fn decode_error(why: &str) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn merge_patch(call: &Call, live: &Value) -> Result<(Value, Vec<String>), ApiError> {
    let relaxed = call.options.field_validation == FieldValidation::Ignore;
    let bad = || ApiError::bad_request("Invalid JSON Patch");
    let document = json::parse(&call.body).map_err(|why| match relaxed {
        true => bad(),
        false => decode_error(&why),
    })?;
    let patch = match &document.value {
        Value::Object(patch) => patch,
        Value::Null => return Err(bad()),
        // A list is taken for the new object, which no kind is.
        Value::Array(_) if relaxed => return Ok((document.value, Vec::new())),
        _ if relaxed => return Err(bad()),
        other => {
            let what = go_name(other);
            let why = format!("json: cannot unmarshal {what} into Go value of type map[string]interface {{}}");
            return Err(decode_error(&why));
        }
    };
    let mut object = live.clone();
    if let Some(fields) = object.as_object_mut() {
        jsonpatch::merge(fields, patch);
    }
    let duplicates = document
        .duplicates
        .iter()
        .map(|path| format!("duplicate field {}", go_quote(path)));
    Ok((object, duplicates.collect()))
}

fn json_patch(call: &Call, live: &Value) -> Result<(Value, Vec<String>), ApiError> {
    let shape = PatchShape::of(call.options.field_validation);
    let document = json::parse(&call.body).map_err(|why| shape.error(&why))?;
    let operations = match &document.value {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(shape.mismatch(other, shape.list)),
    };
    let mut findings: Vec<String> = document
        .duplicates
        .iter()
        .map(|path| format!("json patch duplicate field {}", go_quote(path)))
        .collect();
    for (index, operation) in operations.iter().enumerate() {
        findings.extend(unknown_members(index, operation, &shape)?);
    }
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
            ),
        ));
    }
    let patch = JsonPatch::new(live.clone(), &call.body);
    let object = patch.apply(operations).ok_or_else(rejected)?;
    Ok((object, findings))
}

/// A patch is read once or twice, depending on who wants to hear of unknown fields, and the first
/// reader that fails gives the message.
struct PatchShape {
    prefix: &'static str,
    list: &'static str,
    item: &'static str,
    checks_members: bool,
}

impl PatchShape {
    fn of(validation: FieldValidation) -> Self {
        match validation {
            FieldValidation::Ignore => Self {
                prefix: "",
                list: "jsonpatch.Patch",
                item: "jsonpatch.Operation",
                checks_members: false,
            },
            _ => Self {
                prefix: "error decoding patch: ",
                list: "[]handlers.jsonPatchOp",
                item: "handlers.jsonPatchOp",
                checks_members: true,
            },
        }
    }

    fn error(&self, why: &str) -> ApiError {
        ApiError::bad_request(format!("{}{why}", self.prefix))
    }

    fn mismatch(&self, found: &Value, wanted: &str) -> ApiError {
        let what = go_name(found);
        self.error(&format!("json: cannot unmarshal {what} into Go value of type {wanted}"))
    }
}

fn unknown_members(index: usize, operation: &Value, shape: &PatchShape) -> Result<Vec<String>, ApiError> {
    let members = match operation {
        Value::Object(members) => members,
        Value::Null => return Ok(Vec::new()),
        other => return Err(shape.mismatch(other, shape.item)),
    };
    let known = ["op", "path", "from", "value"];
    for member in &known[..3] {
        let wrong = members
            .get(*member)
            .filter(|value| !value.is_string() && !value.is_null());
        if let (Some(value), true) = (wrong, shape.checks_members) {
            let what = go_name(value);
            let into = format!("into Go struct field jsonPatchOp.{member} of type string");
            return Err(shape.error(&format!("json: cannot unmarshal {what} {into}")));
        }
    }
    let unknown = members.keys().filter(|name| !known.contains(&name.as_str()));
    Ok(unknown
        .map(|name| format!("json patch unknown field \"[{index}].{name}\""))
        .collect())
}

/// The server does not say which operation failed.
fn rejected() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    let mut error = ApiError::new(422, "Invalid", message);
    error.details = Some(serde_json::json!({}));
    error
}
