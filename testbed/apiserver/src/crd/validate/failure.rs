//! What the validator found, before it becomes field errors.
//!
//! Two failures with the same text are one, wherever they come from; the text is only for that and
//! for the errors that show it.

use serde_json::Value;

use aplomb_apimachinery::field::{ErrorType, FieldError, go_quote};
use aplomb_go_compat as go;

/// One failed check.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    path: String,
    text: String,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// About no field in particular: shown with an empty value under `<nil>`.
    Composite,
    Field {
        kind: ErrorType,
        value: Option<Value>,
        detail: Option<String>,
    },
}

impl Failure {
    fn field(path: &str, text: String, kind: ErrorType, value: Option<Value>, detail: Option<String>) -> Self {
        Self {
            path: path.to_owned(),
            text,
            shape: Shape::Field { kind, value, detail },
        }
    }

    pub(super) fn composite(text: String) -> Self {
        Self {
            path: String::new(),
            text,
            shape: Shape::Composite,
        }
    }

    pub(super) fn required(path: &str) -> Self {
        let text = format!("{path} in body is required");
        Self::field(path, text, ErrorType::Required, None, Some(String::new()))
    }

    pub(super) fn invalid(path: &str, value: Value, why: &str) -> Self {
        Self::field(
            path,
            format!("{path} in body {why}"),
            ErrorType::Invalid,
            Some(value),
            None,
        )
    }

    pub(super) fn bad_factor(path: &str, factor: i64) -> Self {
        let text = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        Self::field(path, text, ErrorType::Invalid, Some(factor.into()), None)
    }

    pub(super) fn forbidden_member(path: &str, name: &str, text: String) -> Self {
        Self::field(path, text, ErrorType::Invalid, Some(name.into()), None)
    }

    /// `actual` is a type name, or the text that does not have the wanted format.
    pub(super) fn wrong_type(path: &str, wanted: &str, actual: &str) -> Self {
        let text = format!("{path} in body must be of type {wanted}: {}", go_quote(actual));
        Self::field(path, text, ErrorType::TypeInvalid, Some(actual.into()), None)
    }

    pub(super) fn too_long(path: &str, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let text = format!("{path} in body should be at most {max} chars long");
        let detail = format!("may not be more than {max} {unit}");
        Self::field(path, text, ErrorType::TooLong, None, Some(detail))
    }

    pub(super) fn too_many(path: &str, actual: i64, max: i64, what: &str) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let text = format!("{path} in body should have at most {max} {what}");
        let detail = format!("must have at most {max} {unit}");
        Self::field(path, text, ErrorType::TooMany, Some(actual.into()), Some(detail))
    }

    pub(super) fn not_in_enum(path: &str, value: &Value, allowed: &[Value]) -> Self {
        let shown = |v: &Value| v.as_str().map_or_else(|| go::json(v), str::to_owned);
        let quoted: Vec<String> = allowed.iter().map(|v| go_quote(&shown(v))).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        let text = format!("{path} in body should be one of {}", quoted.join(" "));
        Self::field(path, text, ErrorType::NotSupported, Some(value.clone()), Some(detail))
    }

    fn into_field_error(self, prefix: &str) -> FieldError {
        let name = self.path.trim_start_matches('.');
        let field = match (prefix, name) {
            ("", "") => "<nil>".to_owned(),
            (prefix, "") => prefix.to_owned(),
            ("", name) => name.to_owned(),
            (prefix, name) => format!("{prefix}.{name}"),
        };
        match self.shape {
            Shape::Composite => {
                let field = if prefix.is_empty() { "<nil>" } else { prefix };
                FieldError::invalid(field, "", self.text)
            }
            Shape::Field { kind, value, detail } => FieldError {
                kind,
                field,
                value,
                detail: detail.unwrap_or(self.text),
            },
        }
    }
}

/// The outcome of one check or of many.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) failures: Vec<Failure>,
    /// Checks that were made; among alternatives the one with the most is shown.
    pub(super) matches: usize,
}

impl Report {
    pub(super) fn matched() -> Self {
        Self {
            failures: Vec::new(),
            matches: 1,
        }
    }

    pub(super) fn failed(failure: Failure) -> Self {
        Self {
            failures: vec![failure],
            matches: 0,
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn push(&mut self, failure: Failure) {
        if self.failures.iter().all(|known| known.text != failure.text) {
            self.failures.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Report) {
        for failure in other.failures {
            self.push(failure);
        }
        self.matches += other.matches;
    }

    pub(super) fn merge_counted(&mut self, other: Report) {
        self.merge(other);
        self.matches += 1;
    }

    pub(super) fn into_field_errors(self, prefix: &str) -> Vec<FieldError> {
        self.failures
            .into_iter()
            .map(|failure| failure.into_field_error(prefix))
            .collect()
    }
}
