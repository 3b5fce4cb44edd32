//! What is wrong with a change: by the rules for all objects and by those of the kind, in the order
//! in which the server tells it. Nothing is changed here.

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Part;
use aplomb_apimachinery::status::ApiError;
use serde_json::Value;

use super::peculiar::Peculiarity;
use super::{metadata, options};
use crate::call::Call;

/// Refuses a change of `live` to `object` that breaks a rule.
pub(super) fn validate(call: &Call, object: &Value, live: &Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    let mut errors = metadata::validate_any(resource, object);
    errors.extend(metadata::validate_update(object, live));
    let clean = errors.is_empty();
    if clean {
        options::check_type_meta(resource, object)?;
    }
    errors.extend(kind_errors(call, object, live, clean));
    errors.extend(options::unchecked_rules(resource, &errors));
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(
        &resource.group_kind_of(object),
        object::name(object),
        &errors,
    ))
}

/// What the kind itself finds: in its metadata as a change and as a new object, and in the rest, in
/// the kind's own order. Metadata that is `clean` by the rules for all objects is not gone through
/// again.
fn kind_errors(call: &Call, object: &Value, live: &Value, clean: bool) -> Vec<FieldError> {
    let resource = &call.resource;
    let row = Peculiarity::of(resource);
    if call.part == Part::Status && row.unchecked_status {
        return Vec::new();
    }
    let as_new = row.checks.1 > 1 && call.part == Part::Main;
    let found = resource.strategy.validate_update(object, live, call.part);
    let mut changed = Vec::new();
    if row.checks.0 > 1 {
        if !clean {
            changed.extend(metadata::validate_update(object, live));
        }
        changed.extend(options::finalizer_errors(resource, object));
    }
    if call.part == Part::Status && row.status_first {
        let own = resource.strategy.validate_update(object, object, call.part);
        let moved = found.strip_prefix(&own[..]).unwrap_or_default();
        return [&own[..], &changed, moved].concat();
    }
    if !as_new {
        return [changed, found].concat();
    }
    let rest = if found.is_empty() {
        Vec::new()
    } else {
        resource.strategy.validate_create(object)
    };
    let mut new = if clean {
        metadata::validate_names(resource, object)
    } else {
        metadata::validate_create(resource, object)
    };
    new.extend(options::finalizer_errors(resource, object));
    merged(&row, changed, new, &found, &rest)
}

/// One list of what was found in the metadata as a change, in the metadata as a new object, and in
/// the rest: `found` by the rules for changes, which repeat `rest`, what the rules for new objects
/// found.
fn merged(
    row: &Peculiarity,
    mut changed: Vec<FieldError>,
    mut new: Vec<FieldError>,
    found: &[FieldError],
    rest: &[FieldError],
) -> Vec<FieldError> {
    if row.new_first {
        let own = found
            .strip_suffix(rest)
            .or_else(|| found.strip_prefix(rest));
        new.extend_from_slice(if own.is_some() { rest } else { found });
        changed.extend_from_slice(own.unwrap_or_default());
        return [new, changed].concat();
    }
    // A kind that looks at the new object first has what it found there at the start.
    let last = row.change_last || (!rest.is_empty() && found.starts_with(rest));
    let own = (!last).then(|| found.strip_suffix(rest)).flatten();
    changed.extend_from_slice(own.unwrap_or_default());
    new.extend_from_slice(if own.is_some() { rest } else { found });
    [changed, new].concat()
}
