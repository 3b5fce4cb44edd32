//! ObjectMeta's own types: every object has it, and a CRD may not describe it.

use serde_json::{Value, json};

/// ObjectMeta in OpenAPI form, as far as ownership cares.
pub(super) fn openapi() -> Value {
    let text = || json!({ "type": "string" });
    let time = || json!({ "type": "string", "format": "date-time" });
    let number = || json!({ "type": "integer", "format": "int64" });
    let strings = || json!({ "type": "object", "additionalProperties": text() });
    json!({
        "type": "object",
        "properties": {
            "annotations": strings(),
            "creationTimestamp": time(),
            "deletionGracePeriodSeconds": number(),
            "deletionTimestamp": time(),
            "finalizers": { "type": "array", "items": text(), "x-kubernetes-list-type": "set" },
            "generateName": text(),
            "generation": number(),
            "labels": strings(),
            "managedFields": { "type": "array", "items": managed_fields_entry() },
            "name": text(),
            "namespace": text(),
            "ownerReferences": {
                "type": "array",
                "items": owner_reference(),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
            },
            "resourceVersion": text(),
            "selfLink": text(),
            "uid": text(),
        },
    })
}

fn owner_reference() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": { "type": "string" },
            "blockOwnerDeletion": { "type": "boolean" },
            "controller": { "type": "boolean" },
            "kind": { "type": "string" },
            "name": { "type": "string" },
            "uid": { "type": "string", "default": "" },
        },
    })
}

fn managed_fields_entry() -> Value {
    json!({
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "fieldsType": { "type": "string" },
            "fieldsV1": { "type": "object" },
            "manager": { "type": "string" },
            "operation": { "type": "string" },
            "subresource": { "type": "string" },
            "time": { "type": "string", "format": "date-time" },
        },
    })
}
