//! PATCH: JSON patch and merge patch. An apply goes to `apply`; a strategic merge is refused.

use serde_json::Value;

use super::decode::go_name;
use super::{Managers, admission, apply, create, json, meta, options, update};
use crate::call::{Call, FieldValidation, Outcome, PatchType};
use crate::field::{FieldError, go_quote};
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::status::{ApiError, GroupResource};

/// A JSON patch may not be longer.
const MAX_OPERATIONS: usize = 10_000;

pub(super) fn patch(server: &ApiServer, call: &Call) -> Result<Outcome, ApiError> {
    let patch_type = call.patch_type.unwrap_or(PatchType::StrategicMerge);
    if patch_type == PatchType::StrategicMerge {
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
        let mut object = patched(call, patch_type, live, &mut warnings)?;
        object = managers.update(Some(live), object);
        create::set_namespace(call, &mut object)?;
        update::check_name(call, &object)?;
        admission::update(server, call)?;
        warnings.extend(create::duplicate_owner_warning(&mut object, true));
        Ok(object)
    })?;
    warnings.extend(updated.warnings);
    Ok(Outcome::Object {
        code: 200,
        object: updated.object,
        warnings,
    })
}

/// 415 as the server says it.
fn unsupported(resource: &Resource) -> ApiError {
    let mut types = vec![
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
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

fn patched(
    call: &Call,
    patch_type: PatchType,
    live: &Value,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    let strict = call.options.field_validation;
    let (result, mut findings) = match patch_type {
        PatchType::Json => json_patch(call, live)?,
        _ => merge_patch(call, live)?,
    };
    if strict == FieldValidation::Ignore {
        findings.clear();
    }
    let text = result.to_string();
    let decoded = call.resource.strategy.decode(result).map_err(|error| {
        let why = error
            .message
            .split_once(&format!("cannot be handled as a {}: ", call.resource.kind));
        invalid_patch(&text, why.map_or(error.message.as_str(), |(_, why)| why))
    })?;
    if strict != FieldValidation::Ignore {
        findings.extend(decoded.unknown);
    }
    if strict == FieldValidation::Strict && !findings.is_empty() {
        return Err(invalid_patch(
            &text,
            &format!("strict decoding error: {}", findings.join(", ")),
        ));
    }
    warnings.extend(findings);
    let mut object = decoded.object;
    meta::normalize(&mut object);
    call.resource.strategy.default(&mut object);
    Ok(object)
}

fn invalid_patch(text: &str, why: &str) -> ApiError {
    let error = FieldError::invalid("patch", text, why);
    let mut refused = ApiError::invalid(&GroupResource::default(), "", &[error]);
    refused.message = format!(
        " \"\" is invalid: patch: Invalid value: {}: {why}",
        go_quote(text)
    );
    refused
}

fn decode_error(why: &str) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn merge_patch(call: &Call, live: &Value) -> Result<(Value, Vec<String>), ApiError> {
    let document = json::parse(&call.body).map_err(|why| decode_error(&why))?;
    match &document.value {
        Value::Object(_) => {}
        Value::Null => return Err(ApiError::bad_request("Invalid JSON Patch")),
        other => {
            let what = go_name(other);
            let why = format!(
                "json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            );
            return Err(decode_error(&why));
        }
    }
    let mut object = live.clone();
    json_patch::merge(&mut object, &document.value);
    let duplicates = document
        .duplicates
        .iter()
        .map(|path| format!("duplicate field {}", go_quote(path)));
    Ok((object, duplicates.collect()))
}

fn json_patch(call: &Call, live: &Value) -> Result<(Value, Vec<String>), ApiError> {
    let document = json::parse(&call.body).map_err(|why| decode_error(&why))?;
    let Value::Array(operations) = &document.value else {
        let what = go_name(&document.value);
        let into = "into Go value of type []handlers.jsonPatchOp";
        return Err(decode_error(&format!(
            "json: cannot unmarshal {what} {into}"
        )));
    };
    let mut findings: Vec<String> = document
        .duplicates
        .iter()
        .map(|path| format!("json patch duplicate field {}", go_quote(path)))
        .collect();
    for (index, operation) in operations.iter().enumerate() {
        findings.extend(unknown_members(index, operation)?);
    }
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
            ),
        ));
    }
    let mut object = live.clone();
    for operation in operations {
        apply_operation(&mut object, operation).ok_or_else(rejected)?;
    }
    Ok((object, findings))
}

fn unknown_members(index: usize, operation: &Value) -> Result<Vec<String>, ApiError> {
    let Value::Object(members) = operation else {
        let what = go_name(operation);
        let into = "into Go value of type handlers.jsonPatchOp";
        return Err(decode_error(&format!(
            "json: cannot unmarshal {what} {into}"
        )));
    };
    let known = ["op", "path", "from", "value"];
    for member in &known[..3] {
        let wrong = members
            .get(*member)
            .filter(|value| !value.is_string() && !value.is_null());
        if let Some(value) = wrong {
            let what = go_name(value);
            let into = format!("into Go struct field jsonPatchOp.{member} of type string");
            return Err(decode_error(&format!(
                "json: cannot unmarshal {what} {into}"
            )));
        }
    }
    let unknown = members
        .keys()
        .filter(|name| !known.contains(&name.as_str()));
    Ok(unknown
        .map(|name| format!("json patch unknown field \"[{index}].{name}\""))
        .collect())
}

/// One operation; `None` when it fails. An operation without a value has the value null.
fn apply_operation(object: &mut Value, operation: &Value) -> Option<()> {
    let mut operation = operation.clone();
    let members = operation.as_object_mut()?;
    if matches!(members.get("op")?.as_str()?, "add" | "replace" | "test") {
        members.entry("value").or_insert(Value::Null);
    }
    let parsed: json_patch::PatchOperation = serde_json::from_value(operation).ok()?;
    json_patch::patch(object, &[parsed]).ok()
}

/// The server does not say which operation failed.
fn rejected() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    let mut error = ApiError::new(422, "Invalid", message);
    error.details = Some(serde_json::json!({}));
    error
}
