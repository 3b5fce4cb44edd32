//! From a request body to an object of the kind: syntax, kind and version, unknown and duplicate
//! fields, defaults. What the object says is not judged here.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::json;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::metadata;
use crate::call::{Call, FieldValidation};

pub(super) const TYPE_META: &str =
    "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// An object of the kind and what the client is told about it.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
}

/// Reads the body of a POST or PUT.
pub(super) fn body(call: &Call) -> Result<Body, ApiError> {
    let resource = &call.resource;
    let document = json::parse(&call.body)
        .map_err(|e| unrecognized(call, &format!("couldn't get version/kind; json parse error: {e}")))?;
    let mut value = document.value;
    check_shape(call, &value)?;
    if resource.strategy.is_custom() {
        check_custom(call, &value, &document.duplicates)?;
    } else {
        default_kind(resource, &mut value);
    }
    let kind = object::text(&value, "kind").to_owned();
    let decoded = resource.strategy.decode(value)?;
    let mut findings = duplicate_fields(&document.duplicates);
    findings.extend(decoded.unknown);
    // A custom resource is read first and compared with its schema then.
    if !resource.strategy.is_custom() {
        in_order(&call.body, &mut findings);
    }
    let strict = call.options.field_validation == FieldValidation::Strict;
    if strict && !findings.is_empty() {
        let why = format!("strict decoding error: {}", findings.join(", "));
        return Err(cannot_handle(resource, &kind, &resource.version, &why));
    }
    let warnings = match call.options.field_validation {
        FieldValidation::Warn => findings,
        _ => Vec::new(),
    };
    let mut object = decoded.object;
    metadata::normalize(&mut object);
    resource.strategy.default(&mut object);
    Ok(Body { object, warnings })
}

fn duplicate_fields(paths: &[String]) -> Vec<String> {
    let duplicate = |path: &String| format!("duplicate field {}", go_quote(path));
    paths.iter().map(duplicate).collect()
}

/// Puts findings in the order in which the body comes to the fields they are about.
fn in_order(body: &[u8], findings: &mut [String]) {
    if findings.len() < 2 {
        return;
    }
    let fields = json::fields(body);
    findings.sort_by_cached_key(|finding| {
        let field = finding.split('"').nth(1).unwrap_or_default();
        // A duplicate is noticed when the field comes again.
        let earlier = usize::from(finding.starts_with("duplicate"));
        let mut places = fields.iter().enumerate().filter(|(_, name)| *name == field);
        places.nth(earlier).map_or(usize::MAX, |(place, _)| place)
    });
}

fn unrecognized(call: &Call, why: &str) -> ApiError {
    let kind = &call.resource.kind;
    let summary = summarize(&call.body);
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// The server's answer to a body it could read but not as this kind.
pub(super) fn cannot_handle(resource: &Resource, kind: &str, version: &str, why: &str) -> ApiError {
    let version = go_quote(version);
    ApiError::bad_request(format!(
        "{kind} in version {version} cannot be handled as a {}: {why}",
        resource.kind
    ))
}

fn summarize(body: &[u8]) -> String {
    const MAX: usize = 30;
    let shown = &body[..body.len().min(MAX)];
    let mut text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > MAX {
        text.push_str(" ...");
    }
    text
}

/// The name Go's decoder has for a JSON value.
pub(super) fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_shape(call: &Call, value: &Value) -> Result<(), ApiError> {
    let wrong = match value {
        Value::Null => None,
        Value::Object(map) => ["apiVersion", "kind"].iter().find_map(|member| {
            let value = map.get(*member)?;
            let fits = value.is_string() || value.is_null();
            (!fits).then(|| format!("{} into Go struct field .{member} of type string", go_name(value)))
        }),
        other => Some(format!("{} into Go value of type {TYPE_META}", go_name(other))),
    };
    match wrong {
        None => Ok(()),
        Some(what) => {
            let why = format!("couldn't get version/kind; json parse error: json: cannot unmarshal {what}");
            Err(unrecognized(call, &why))
        }
    }
}

fn check_custom(call: &Call, value: &Value, duplicates: &[String]) -> Result<(), ApiError> {
    if object::text(value, "kind").is_empty() {
        let raw = String::from_utf8_lossy(&call.body);
        let why = format!("Object 'Kind' is missing in '{raw}'");
        if call.options.field_validation == FieldValidation::Ignore {
            let (kind, version) = (&call.resource.kind, &call.resource.version);
            return Err(cannot_handle(&call.resource, kind, version, &why));
        }
        return Err(unrecognized(call, &why));
    }
    if value.get("apiVersion").is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        let kind = object::text(value, "kind");
        return Err(cannot_handle(&call.resource, kind, "", why));
    }
    let expected = call.resource.api_version();
    let stated = object::text(value, "apiVersion");
    if stated == expected {
        return Ok(());
    }
    let refused = ApiError::bad_request(format!(
        "the API version in the data ({stated}) does not match the expected API version ({expected})"
    ));
    let refused = match call.options.field_validation {
        FieldValidation::Warn => refused.after_warnings(duplicate_fields(duplicates)),
        _ => refused,
    };
    let other_group = stated.split('/').next() != expected.split('/').next();
    if other_group || call.options.field_validation == FieldValidation::Ignore {
        return Err(refused);
    }
    // A version without a schema knows no field.
    let known = ["apiVersion", "kind", "metadata"];
    let unknown = value.as_object().into_iter().flat_map(|map| map.keys());
    let unknown = unknown.filter(|member| !known.contains(&member.as_str()));
    let warnings = unknown.map(|member| format!("unknown field {}", go_quote(member)));
    Err(refused.after_warnings(warnings.collect()))
}

fn default_kind(resource: &Resource, value: &mut Value) {
    if value.is_null() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Some(map) = value.as_object_mut() else {
        return;
    };
    for (member, text) in [("apiVersion", resource.api_version()), ("kind", resource.kind.clone())] {
        if map.get(member).and_then(Value::as_str).unwrap_or_default().is_empty() {
            map.insert(member.to_owned(), text.into());
        }
    }
}
