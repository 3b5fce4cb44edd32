//! A CRD version's schema as it is published and as field management reads it: with apiVersion,
//! kind and the metadata every object has.

use serde_json::{Map, Value, json};

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The published form of `schema`.
#[must_use]
pub(super) fn publish(schema: &Value, group: &str, version: &str, kind: &str) -> Value {
    let mut published = schema.as_object().cloned().unwrap_or_default();
    expand(&mut published);
    published.insert("type".into(), "object".into());
    let preserves = published.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if !preserves || published.contains_key("properties") {
        let properties = published.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            properties.insert(
                "apiVersion".into(),
                json!({ "description": API_VERSION, "type": "string" }),
            );
            properties.insert("kind".into(), json!({ "description": KIND, "type": "string" }));
            properties.insert("metadata".into(), object_meta());
        }
    }
    let gvk = json!([{ "group": group, "version": version, "kind": kind }]);
    published.insert("x-kubernetes-group-version-kind".into(), gvk);
    Value::Object(published)
}

/// Spells out what extensions imply: the alternatives of int-or-string, an embedded object's head.
fn expand(schema: &mut Map<String, Value>) {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        schema.remove("type");
        schema
            .entry("anyOf")
            .or_insert_with(|| json!([{ "type": "integer" }, { "type": "string" }]));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(Value::Object(child)) = schema.get_mut(key) {
            expand(child);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties
            .values_mut()
            .filter_map(Value::as_object_mut)
            .for_each(expand);
    }
    if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        expand_embedded(schema);
    }
}

fn expand_embedded(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert(
            "apiVersion".into(),
            json!({ "description": API_VERSION, "type": "string" }),
        );
        properties.insert("kind".into(), json!({ "description": KIND, "type": "string" }));
        properties.insert("metadata".into(), object_meta());
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}

/// ObjectMeta with the list types field management needs.
fn object_meta() -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let time = json!({ "type": "string", "format": "date-time" });
    let number = json!({ "type": "integer", "format": "int64" });
    json!({
        "description": METADATA,
        "type": "object",
        "properties": {
            "annotations": texts, "labels": texts,
            "creationTimestamp": time, "deletionTimestamp": time,
            "deletionGracePeriodSeconds": number, "generation": number,
            "generateName": text, "name": text, "namespace": text,
            "resourceVersion": text, "selfLink": text, "uid": text,
            "finalizers": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
            "managedFields": {
                "type": "array",
                "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "x-kubernetes-list-type": "atomic"
            },
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["apiVersion", "kind", "name", "uid"],
                    "properties": {
                        "apiVersion": text, "kind": text, "name": text, "uid": text,
                        "controller": { "type": "boolean" }, "blockOwnerDeletion": { "type": "boolean" }
                    },
                    "x-kubernetes-map-type": "atomic"
                },
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-list-type": "map"
            }
        }
    })
}
