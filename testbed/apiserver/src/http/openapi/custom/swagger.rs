//! The schema of a custom resource as OpenAPI v2 shows it: without what that version, or kubectl's
//! reading of it, has no place for.

use serde_json::{Map, Value};

use super::Version;
use super::schema::{describe, finish, is_nothing, object};
use crate::http::openapi::proto::Edition;

/// Members OpenAPI v2 does not have, and defaults, which the server leaves out of it.
const LEFT_OUT: [&str; 5] = ["allOf", "anyOf", "oneOf", "not", "default"];

/// The kind's schema. One that keeps unknown fields shows no properties at all: kubectl would
/// refuse every other.
pub(super) fn publish(version: &Version<'_>) -> Value {
    let closed = version
        .schema()
        .filter(|schema| !version.preserves && !keeps_unknown(schema));
    let mut schema = match closed {
        Some(schema) => {
            let mut schema = reduce(schema);
            finish(&mut schema, Edition::V2);
            schema
        }
        None => object(),
    };
    describe(&mut schema, version, version.kind);
    Value::Object(schema)
}

fn reduce(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut copy = schema.clone();
    copy.retain(|key, value| !LEFT_OUT.contains(&key.as_str()) && !is_nothing(key, value));
    let (nullable, keeps) = (is_nullable(schema), keeps_unknown(schema));
    if nullable {
        copy.remove("type");
        copy.remove("nullable");
    }
    if nullable || keeps {
        copy.remove("items");
        copy.remove("properties");
    }
    let kind = copy.get("type").and_then(Value::as_str);
    let untyped = match kind {
        Some("array") => !copy.contains_key("items"),
        Some("object") => keeps,
        _ => false,
    };
    if untyped {
        copy.remove("type");
    }
    reduce_required(&mut copy);
    reduce_children(&mut copy);
    copy
}

/// What may be null is not required.
fn reduce_required(schema: &mut Map<String, Value>) {
    let nullable = |value: Option<&Value>| value.and_then(Value::as_object).is_some_and(is_nullable);
    if nullable(schema.get("additionalProperties")) {
        schema.remove("required");
    }
    let properties = schema.get("properties").cloned().unwrap_or_default();
    let Some(Value::Array(required)) = schema.get_mut("required") else {
        return;
    };
    required.retain(|name| !nullable(name.as_str().and_then(|name| properties.get(name))));
    if required.is_empty() {
        schema.remove("required");
    }
}

fn reduce_children(schema: &mut Map<String, Value>) {
    let reduced = |child: &mut Value| {
        if let Value::Object(members) = child {
            *members = reduce(members);
        }
    };
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get_mut(key) {
            reduced(child);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(reduced);
    }
}

fn is_nullable(schema: &Map<String, Value>) -> bool {
    schema.get("nullable") == Some(&Value::Bool(true))
}

fn keeps_unknown(schema: &Map<String, Value>) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_be_null_has_no_type_and_is_not_required() {
        let schema = json!({
            "type": "object",
            "required": ["a", "b"],
            "properties": {
                "a": { "type": "string", "nullable": true, "default": "x", "maxLength": 3 },
                "b": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "c": { "type": "string", "anyOf": [{ "pattern": "x" }] },
            },
        });
        let reduced = json!({
            "type": "object",
            "properties": { "a": { "maxLength": 3 }, "b": {}, "c": { "type": "string" } },
        });
        assert_eq!(
            Some(reduce(schema.as_object().expect("an object"))),
            reduced.as_object().cloned()
        );
    }
}
