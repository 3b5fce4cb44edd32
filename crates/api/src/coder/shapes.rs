//! Schemas of the strings, lists and maps in Coder's kinds. Each validation message states what to write
//! instead. Of the container fields of Kubernetes, only those are included that need nothing else in the pod.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::rules;
use crate::shape::{CelRule, NAME, URL_HOST, described, ruled, text};

/// The syntax of a Kubernetes quantity.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// More than the server accepts, so that the validation rule reports the error and not the length limit.
const ROOMY: u32 = 1024;

/// A field that may be left out but must not be null: the rules would count null as present.
pub(super) fn given<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A Secret key reference in the status. It was already checked in the spec and needs no rules.
pub(super) fn known_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "description": "The name of the Secret.", "type": "string" },
            "key": { "description": "The key in it.", "type": "string" },
        },
    })
}

/// The URL of a server.
pub(super) fn url(_: &mut SchemaGenerator) -> Schema {
    text(1, 2048, &[rules::URL, URL_HOST, rules::URL_PORT])
}

/// Certificates.
pub(super) fn ca_bundle(_: &mut SchemaGenerator) -> Schema {
    text(1, 65_536, &[rules::CA_BUNDLE])
}

/// The name of an object.
pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    text(1, 253, &[NAME])
}

/// A key of a Secret's data.
pub(super) fn data_key(_: &mut SchemaGenerator) -> Schema {
    text(1, 253, &[rules::DATA_KEY])
}

/// The key of a Secret that the operator writes to.
pub(super) fn key_data(_: &mut SchemaGenerator) -> Schema {
    text(1, 253, &[rules::DATA_KEY, rules::KEY_DATA])
}

/// The name of a key on the server.
pub(super) fn key_name(_: &mut SchemaGenerator) -> Schema {
    let rules = [
        rules::KEY_NAME_EMPTY,
        rules::KEY_NAME_LENGTH,
        rules::KEY_NAME_CASE,
        rules::KEY_NAME_SIGNS,
        rules::KEY_NAME_ENDS,
        rules::KEY_NAME_RESERVED,
    ];
    text(0, ROOMY, &rules)
}

/// The name of a proxy on the server.
pub(super) fn proxy_name(_: &mut SchemaGenerator) -> Schema {
    let rules = [
        rules::PROXY_NAME,
        rules::PROXY_NAME_LENGTH,
        rules::PROXY_NAME_RESERVED,
    ];
    text(0, ROOMY, &rules)
}

/// The display name of a proxy.
pub(super) fn display_name(_: &mut SchemaGenerator) -> Schema {
    text(1, 64, &[rules::DISPLAY_NAME])
}

/// An icon.
pub(super) fn icon(_: &mut SchemaGenerator) -> Schema {
    text(1, 2048, &[rules::ICON])
}

/// An organization.
pub(super) fn organization(_: &mut SchemaGenerator) -> Schema {
    text(1, 128, &[rules::ORGANIZATION])
}

/// An image.
pub(super) fn image(_: &mut SchemaGenerator) -> Schema {
    text(1, ROOMY, &[rules::IMAGE])
}

/// Tags of a key.
pub(super) fn tags(_: &mut SchemaGenerator) -> Schema {
    map(
        32,
        &described("The tag's value.", text(0, 256, &[])),
        &[rules::TAG_KEYS, rules::TAG_SIGNS, rules::TAG_SCOPE],
    )
}

/// Annotations of a Service.
pub(super) fn annotations(_: &mut SchemaGenerator) -> Schema {
    let value = described("The annotation's value.", text(0, 4096, &[]));
    map(32, &value, &[])
}

/// The type of a Service.
pub(super) fn service_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["ClusterIP", "NodePort", "LoadBalancer"] })
}

/// Arguments of `coder provisioner start`.
pub(super) fn provisioner_args(_: &mut SchemaGenerator) -> Schema {
    args(&[rules::PROVISIONER_ARGS])
}

/// Arguments of `coder wsproxy server`.
pub(super) fn proxy_args(_: &mut SchemaGenerator) -> Schema {
    args(&[rules::PROXY_ARGS])
}

/// Environment of provisioner daemons.
pub(super) fn provisioner_env(_: &mut SchemaGenerator) -> Schema {
    env(&[
        rules::PROVISIONER_ENV_URL,
        rules::PROVISIONER_ENV_KEY,
        rules::PROVISIONER_ENV_TAGS,
        rules::PROVISIONER_ENV_ORGANIZATION,
    ])
}

/// Environment of workspace proxies.
pub(super) fn proxy_env(_: &mut SchemaGenerator) -> Schema {
    env(&[rules::PROXY_ENV_URL, rules::PROXY_ENV_TOKEN])
}

/// Secrets to pull an image with.
pub(super) fn pull_secrets(_: &mut SchemaGenerator) -> Schema {
    let secret = json_schema!({
        "description": "A Secret in the same namespace.",
        "type": "object",
        "required": ["name"],
        "properties": { "name": described("Its name.", text(1, 253, &[NAME])) },
    });
    by_name(16, &secret, &[])
}

/// Resources of a container.
pub(super) fn resources(_: &mut SchemaGenerator) -> Schema {
    let amount = json_schema!({
        "description": "An amount, like 500m or 2Gi.",
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY,
        "maxLength": 64,
        "x-kubernetes-int-or-string": true,
    });
    let amounts = |description: &str| described(description, map(16, &amount, &[]));
    json_schema!({
        "type": "object",
        "properties": {
            "limits": amounts("The limit of the container."),
            "requests": amounts("The amount reserved for the container."),
        },
    })
}

fn map(most: u32, value: &Schema, rules: &[CelRule]) -> Schema {
    let map = json_schema!({
        "type": "object",
        "maxProperties": most,
        "additionalProperties": value,
    });
    ruled(map, rules)
}

/// A list of objects with unique names.
fn by_name(most: u32, item: &Schema, rules: &[CelRule]) -> Schema {
    let list = json_schema!({
        "type": "array",
        "maxItems": most,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    });
    ruled(list, rules)
}

fn args(rules: &[CelRule]) -> Schema {
    let list = json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": described("An argument.", text(1, 4096, &[])),
        "x-kubernetes-list-type": "atomic",
    });
    ruled(list, rules)
}

fn env(rules: &[CelRule]) -> Schema {
    let variable = json_schema!({
        "description": "A variable.",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": described("Its name.", text(1, 256, &[rules::ENV_NAME])),
            "value": described("Its value.", text(0, 32_768, &[])),
            "valueFrom": source(),
        },
    });
    by_name(64, &ruled(variable, &[rules::ENV_EITHER]), rules)
}

/// The source of a variable's value.
fn source() -> Schema {
    let source = json_schema!({
        "description": "The source of the value.",
        "type": "object",
        "properties": {
            "configMapKeyRef": key_of("ConfigMap"),
            "secretKeyRef": key_of("Secret"),
            "fieldRef": {
                "description": "A field of the pod.",
                "type": "object",
                "required": ["fieldPath"],
                "properties": {
                    "apiVersion": described("The version of its path.", text(1, 64, &[])),
                    "fieldPath": described("Its path, like spec.nodeName.", text(1, 512, &[])),
                },
            },
        },
    });
    ruled(source, &[rules::ENV_SOURCE])
}

fn key_of(what: &str) -> Schema {
    json_schema!({
        "description": format!("A key of a {what} in the same namespace."),
        "type": "object",
        "required": ["name", "key"],
        "properties": {
            "name": described("Its name.", text(1, 253, &[NAME])),
            "key": described("The key in it.", text(1, 253, &[rules::DATA_KEY])),
            "optional": { "description": "Whether it may be missing.", "type": "boolean" },
        },
    })
}
