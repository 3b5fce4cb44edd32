//! What the fields behind `/scale` must hold for the subresource to make sense.
//!
//! Only validation: how a Scale is read and written is not known here.

use serde_json::Value;

use aplomb_apimachinery::field::FieldError;
use aplomb_go_compat as go;

const NOT_A_MAP: &str = "map[string]interface{}";

/// Paths of a definition's `subresources.scale`, as written there.
#[derive(Debug, Default)]
pub(super) struct Scale {
    spec_replicas: Option<String>,
    status_replicas: Option<String>,
    selector: Option<String>,
}

impl Scale {
    /// Reads them from an entry of `spec.versions`; none of them without the subresource.
    pub(super) fn parse(version: &Value) -> Self {
        let scale = version.pointer("/subresources/scale");
        let path = |member: &str| {
            let path = scale?.get(member)?.as_str()?;
            Some(path.to_owned()).filter(|path| !path.is_empty())
        };
        Self {
            spec_replicas: path("specReplicasPath"),
            status_replicas: path("statusReplicasPath"),
            selector: path("labelSelectorPath"),
        }
    }

    /// Checks the desired number.
    pub(super) fn validate_spec(&self, object: &Value) -> Vec<FieldError> {
        let path = self.spec_replicas.as_deref();
        path.and_then(|path| replicas(object, path)).into_iter().collect()
    }

    /// Checks the observed number and the selector.
    pub(super) fn validate_status(&self, object: &Value) -> Vec<FieldError> {
        let observed = self.status_replicas.as_deref().and_then(|path| replicas(object, path));
        let selector = self.selector.as_deref().and_then(|path| {
            let wrong = |message| FieldError::invalid(path, "", message);
            match find(object, path) {
                Err(message) => Some(wrong(message)),
                Ok(None | Some(Value::String(_))) => None,
                Ok(Some(other)) => Some(wrong(accessor(path, other, "string"))),
            }
        });
        observed.into_iter().chain(selector).collect()
    }
}

fn replicas(object: &Value, path: &str) -> Option<FieldError> {
    let number = match find(object, path) {
        Err(message) => return Some(FieldError::invalid(path, 0, message)),
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            Some(number) => number,
            None => return Some(FieldError::invalid(path, 0, accessor(path, value, "int64"))),
        },
    };
    if number < 0 {
        Some(FieldError::invalid(path, number, "should be a non-negative integer"))
    } else if number > i64::from(i32::MAX) {
        let limit = format!("should be less than or equal to {}", i32::MAX);
        Some(FieldError::invalid(path, number, limit))
    } else {
        None
    }
}

/// The value at a path; an error when something on the way is no object.
fn find<'o>(object: &'o Value, path: &str) -> Result<Option<&'o Value>, String> {
    let mut value = object;
    let mut walked = String::new();
    for member in path.trim_start_matches('.').split('.') {
        walked.push('.');
        walked.push_str(member);
        match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(member) {
                Some(found) => value = found,
                None => return Ok(None),
            },
            other => return Err(accessor(&walked, other, NOT_A_MAP)),
        }
    }
    Ok(Some(value))
}

fn accessor(path: &str, value: &Value, expected: &str) -> String {
    let path = path.trim_start_matches('.');
    format!(
        ".{path} accessor error: {} is of the type {}, expected {expected}",
        printed(value),
        type_name(value)
    )
}

/// A decoded JSON value as `%v` prints it.
fn printed(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => go::float(number.as_f64().unwrap_or_default()),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(printed).collect())),
        Value::Object(map) => {
            let member = |(key, value): (&String, &Value)| format!("{key}:{}", printed(value));
            format!("map[{}]", joined(map.iter().map(member).collect()))
        }
        other => other.to_string(),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(object: &Value) -> Vec<String> {
        let scale = Scale::parse(&json!({ "subresources": { "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        } } }));
        let errors = scale
            .validate_spec(object)
            .into_iter()
            .chain(scale.validate_status(object));
        errors.map(|error| error.detail).collect()
    }

    #[test]
    fn numbers_and_text_are_fine_and_so_is_nothing() {
        let whole = json!({ "spec": { "replicas": 3 }, "status": { "selector": "a=b" } });
        assert!(messages(&whole).is_empty());
        assert!(messages(&json!({})).is_empty());
    }

    #[test]
    fn each_mistake_is_said_in_the_servers_words() {
        let wrong = json!({ "spec": { "replicas": -1 }, "status": { "replicas": "many", "selector": 5 } });
        let want = [
            "should be a non-negative integer",
            ".status.replicas accessor error: many is of the type string, expected int64",
            ".status.selector accessor error: 5 is of the type int64, expected string",
        ];
        assert_eq!(messages(&wrong), want);
        let text = messages(&json!({ "spec": "text" }));
        let want = ".spec.replicas accessor error: text is of the type string, expected map[string]interface{}";
        assert_eq!(text, [want]);
    }
}
