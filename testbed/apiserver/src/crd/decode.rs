//! A request body read as a custom resource: what the server does to JSON before anything else.

use aplomb_apimachinery::resource::Decoded;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::structural::Structural;
use super::{embedded, object_meta, pruning};

/// Puts a stored object in order: metadata in its own shape, nothing the schema does not know. What
/// cannot be put in order is left as it is.
pub(super) fn settle(stored: &mut Value, schema: &Structural) {
    pruning::prune_resource(stored, schema);
    pruning::prune_nulls(stored, Some(schema));
    let coerced = stored.get("metadata").map(object_meta::coerce);
    if let (Some(Ok(coerced)), Value::Object(map)) = (coerced, &mut *stored) {
        map.insert("metadata".into(), Value::Object(coerced.metadata));
    }
    if let Err(error) = embedded::coerce(stored, schema) {
        tracing::debug!(error = error.message(), "Stored object kept an odd embedded resource");
    }
}

/// Reads `body` as an object of `schema`, if it says it is of `group` and `kind`.
///
/// # Errors
/// 400 with Go's complaint when metadata has the wrong shape.
pub(super) fn decode(
    mut body: Value,
    group: &str,
    kind: &str,
    version: &str,
    schema: &Structural,
) -> Result<Decoded, ApiError> {
    let refuse = |body: &Value, why: &str| {
        let claimed = body.get("kind").and_then(Value::as_str).unwrap_or(kind);
        ApiError::bad_request(format!(
            "{claimed} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    };
    normalize_numbers(&mut body);
    let coerced = body.get("metadata").map(object_meta::coerce).transpose();
    let coerced = coerced.map_err(|why| refuse(&body, &why))?;
    let of_metadata = coerced.iter().flat_map(|coerced| &coerced.unknown);
    let mut unknown: Vec<String> = of_metadata.map(|name| format!("metadata.{name}")).collect();
    if is_of(&body, group, kind) {
        unknown.extend(pruning::prune_resource(&mut body, schema));
        pruning::prune_nulls(&mut body, Some(schema));
        let paths = embedded::coerce(&mut body, schema);
        unknown.extend(paths.map_err(|error| refuse(&body, &error.message()))?);
    }
    if let (Some(coerced), Value::Object(map)) = (coerced, &mut body) {
        map.insert("metadata".into(), Value::Object(coerced.metadata));
    }
    let unknown = unknown
        .into_iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    Ok(Decoded { object: body, unknown })
}

fn is_of(body: &Value, group: &str, kind: &str) -> bool {
    let version = body.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let claimed = version.split_once('/').map_or("", |(group, _)| group);
    claimed == group && body.get("kind").and_then(Value::as_str) == Some(kind)
}

/// What does not fit an integer is a float.
fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            if let Some(float) = number.as_f64() {
                *value = float.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(map) => map.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}
