//! Strategic merge patch: JSON merged by what the Go types say about their lists and maps.
//!
//! Pure, on JSON, with `resource::PatchMeta` for the types. The order of merged lists, the directives
//! and the refusals are those of Go's `strategicpatch`. Reading the patch and reading the result as a
//! kind is the business of `patch`.

mod list;
mod map;
mod order;
mod refusal;
mod text;

pub(super) use refusal::Refusal;
pub(super) use text::shown;

use serde_json::{Map, Value};

use aplomb_apimachinery::resource::PatchMeta;

/// Says what to do with the map or list item it is in.
const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Merges `patch` into `original`. The patch is left as the server leaves it, which is how it shows
/// it in a refusal of the result.
///
/// # Errors
/// What Go's code finds wrong with the patch.
pub(super) fn merge(
    original: Map<String, Value>,
    patch: &mut Map<String, Value>,
    meta: &dyn PatchMeta,
) -> Result<Value, Refusal> {
    map::merge(original, patch, meta).map(Value::Object)
}

#[cfg(test)]
mod tests;
