//! From client-side to server-side apply: the annotation kubectl keeps its last configuration in.
//!
//! Only the manager `kubectl` is treated so, because only kubectl writes the annotation.

use aplomb_go_compat as go;
use serde_json::{Map, Value, json};

use super::set::Set;
use super::types::Types;
use super::update::borrowed;

/// Who is treated so.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together may not be longer.
const MAX_ANNOTATIONS: usize = 256 * 1024;

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

fn last_applied(object: &Value) -> Option<&str> {
    annotations(object)?
        .get(ANNOTATION)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// The fields kubectl applied from the client and nobody changed since: it may take them over
/// from whoever they are booked to.
pub(super) fn allowed_conflicts(types: &Types, version: &str, live: &Value) -> Option<Set> {
    let config: Value = serde_json::from_str(last_applied(live)?).ok()?;
    if config.get("apiVersion").and_then(Value::as_str) != Some(version) {
        return None;
    }
    types.check(version, live, false).ok()?;
    types.check(version, &config, false).ok()?;
    let (config, live) = (borrowed(version, &config), borrowed(version, live));
    let changes = types.compare(&config, &live).ok()?;
    let set = types.field_set(&config);
    Some(
        set.difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

/// Keeps the annotation, where there is one, in step with what was applied.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{}\n", go::json(&applied));
    let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), json!(text));
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}
