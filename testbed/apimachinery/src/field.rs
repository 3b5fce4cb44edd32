//! Field errors as Kubernetes prints them: one value per broken field, turned into a cause.
//!
//! Only shapes and wording live here; what is wrong with an object is decided by the validators.

use serde_json::{Value, json};

use aplomb_go_compat as go;

pub use aplomb_go_compat::quote as go_quote;

/// The kind of a field error; its wire name is the cause's `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TooFew,
    TooShort,
    Internal,
    TypeInvalid,
}

impl ErrorType {
    /// The wire name, as in `details.causes[].reason`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TooShort => "FieldValueTooShort",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::TooShort => "Too short",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal
        )
    }
}

/// One broken field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What kind of mistake.
    pub kind: ErrorType,
    /// Dotted path, `spec.ports[0].name`; `<nil>` for an error about no field at all.
    pub field: String,
    /// The offending value; `None` leaves it out of the message.
    pub value: Option<Value>,
    /// What to do about it, or why.
    pub detail: String,
}

impl FieldError {
    /// An error of `kind` that shows `value`.
    pub fn new(kind: ErrorType, field: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self {
            kind,
            field: field.into(),
            value: Some(value),
            detail: detail.into(),
        }
    }

    /// `Invalid value`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, field, value.into(), detail)
    }

    /// `Required value`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorType::Required,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// `Forbidden`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorType::Forbidden,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// `Duplicate value`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::Duplicate, field, value.into(), "")
    }

    /// `Unsupported value`, with the values that are supported.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, valid: &[&str]) -> Self {
        let quoted: Vec<String> = valid.iter().map(|v| go_quote(v)).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorType::NotSupported, field, value.into(), detail)
    }

    /// `Too long: may not be more than N bytes`.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self {
            kind: ErrorType::TooLong,
            field: field.into(),
            value: None,
            detail,
        }
    }

    /// `Too many`, in items.
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::new(ErrorType::TooMany, field, actual.into(), detail)
    }

    /// The message without the field.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if let (true, Some(value)) = (self.kind.shows_value(), &self.value) {
            text.push_str(": ");
            match value {
                Value::String(s) => text.push_str(&go_quote(s)),
                Value::Number(n) if n.is_f64() => {
                    text.push_str(&go::float(n.as_f64().unwrap_or_default()));
                }
                other => text.push_str(&go::json(other)),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The message with the field.
    #[must_use]
    pub fn message(&self) -> String {
        format!("{}: {}", self.field, self.body())
    }

    /// The cause as it stands in `details.causes`.
    #[must_use]
    pub fn cause(&self) -> Value {
        json!({ "reason": self.kind.reason(), "message": self.body(), "field": self.field })
    }
}
