//! What views have in common that show the whole object and let one part of it change.

use serde_json::Value;

use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::ApiError;

/// Takes over the owners and the version that a client states.
pub(super) fn take_stated(changed: &mut Value, shown: &Value) {
    for member in ["managedFields", "resourceVersion"] {
        let stated = shown["metadata"].get(member).cloned();
        object::set_or_remove(changed, member, stated);
    }
}

/// Moves the generation where the specification is another one.
pub(super) fn move_generation(changed: &mut Value, old: &Value) {
    if changed["spec"] != old["spec"] {
        let generation = object::generation(old) + 1;
        object::set_or_remove(changed, "generation", Some(generation.into()));
    }
}

/// The changed object, unless something is wrong with it.
pub(super) fn judged(parent: &Resource, changed: Value, errors: &[FieldError]) -> Result<Value, ApiError> {
    if errors.is_empty() {
        return Ok(changed);
    }
    let (kind, name) = (parent.group_kind(), object::name(&changed));
    Err(ApiError::invalid(&kind, name, errors))
}
