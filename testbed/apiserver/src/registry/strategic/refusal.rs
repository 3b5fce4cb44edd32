//! What the server answers when a strategic merge cannot be made.

use aplomb_apimachinery::status::ApiError;
use serde_json::{Map, Value};

use super::text;

/// Why a patch cannot be merged.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::registry) enum Refusal {
    /// A directive is malformed.
    Malformed(&'static str),
    /// A list of lists.
    Unprocessable,
    /// Everything else, which the server does not blame on the client.
    Other(String),
}

impl Refusal {
    pub(super) const PRIMITIVE_LIST: Self = Self::Malformed("invalid patch format of primitive list");
    pub(super) const RETAIN_KEYS: Self = Self::Malformed("invalid patch format of retainKeys");
    pub(super) const ELEMENT_ORDER: Self = Self::Malformed("invalid patch format of setElementOrder list");

    /// Another type than the one that was wanted, in Go's words.
    pub(super) fn wrong_type(wanted: &str, found: &Value) -> Self {
        let found = text::type_name(found).unwrap_or("%!s(<nil>)");
        Self::Other(format!("expected a {wanted}, but received a {found}"))
    }

    pub(super) fn no_merge_key(item: &Map<String, Value>, key: &str) -> Self {
        let item = text::shown_map(item);
        Self::Other(format!("map: {item} does not contain declared merge key: {key}"))
    }

    pub(super) fn unknown_directive(directive: &Value, item: &Map<String, Value>) -> Self {
        let directive = text::as_string(directive);
        let item = text::shown_map(item);
        Self::Other(format!("unknown patch type: {directive} in map: {item}"))
    }

    pub(in crate::registry) fn answer(self) -> ApiError {
        match self {
            Self::Malformed(why) => ApiError::bad_request(why),
            Self::Other(why) => ApiError::new(500, "", why),
            Self::Unprocessable => {
                let message = "the server rejected our request due to an error in our request";
                ApiError {
                    details: Some(Value::Object(Map::new())),
                    ..ApiError::new(422, "Invalid", message)
                }
            }
        }
    }
}
