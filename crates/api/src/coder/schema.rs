//! Schemas of the strings, lists and maps in Coder's kinds. Each validation message states what to write
//! instead. Of the container fields of Kubernetes, only those are included that need nothing else in the pod.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::validation;
use crate::schema_util::{CelRule, NAME, URL_HOST, string_schema, with_description, with_rules};

/// The syntax of a Kubernetes quantity.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// More than the server accepts, so that the validation rule reports the error and not the length limit.
const MAX_INPUT_LENGTH: u32 = 1024;

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

pub(super) fn url(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 2048, &[validation::URL, URL_HOST, validation::URL_PORT])
}

pub(super) fn ca_bundle(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 65_536, &[validation::CA_BUNDLE])
}

pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 253, &[NAME])
}

pub(super) fn data_key(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 253, &[validation::DATA_KEY])
}

/// The key of a Secret that the operator writes to.
pub(super) fn key_data(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 253, &[validation::DATA_KEY, validation::KEY_DATA])
}

/// The name of a key on the server.
pub(super) fn key_name(_: &mut SchemaGenerator) -> Schema {
    let rules = [
        validation::KEY_NAME_EMPTY,
        validation::KEY_NAME_LENGTH,
        validation::KEY_NAME_CASE,
        validation::KEY_NAME_SIGNS,
        validation::KEY_NAME_ENDS,
        validation::KEY_NAME_RESERVED,
    ];
    string_schema(0, MAX_INPUT_LENGTH, &rules)
}

/// The name of a proxy on the server.
pub(super) fn proxy_name(_: &mut SchemaGenerator) -> Schema {
    let rules = [
        validation::PROXY_NAME,
        validation::PROXY_NAME_LENGTH,
        validation::PROXY_NAME_RESERVED,
    ];
    string_schema(0, MAX_INPUT_LENGTH, &rules)
}

pub(super) fn display_name(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 64, &[validation::DISPLAY_NAME])
}

pub(super) fn icon(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 2048, &[validation::ICON])
}

pub(super) fn organization(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, 128, &[validation::ORGANIZATION])
}

pub(super) fn image(_: &mut SchemaGenerator) -> Schema {
    string_schema(1, MAX_INPUT_LENGTH, &[validation::IMAGE])
}

pub(super) fn tags(_: &mut SchemaGenerator) -> Schema {
    map_schema(
        32,
        &with_description("The tag's value.", string_schema(0, 256, &[])),
        &[validation::TAG_KEYS, validation::TAG_SIGNS, validation::TAG_SCOPE],
    )
}

pub(super) fn annotations(_: &mut SchemaGenerator) -> Schema {
    let value = with_description("The annotation's value.", string_schema(0, 4096, &[]));
    map_schema(32, &value, &[])
}

pub(super) fn service_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["ClusterIP", "NodePort", "LoadBalancer"] })
}

pub(super) fn provisioner_args(_: &mut SchemaGenerator) -> Schema {
    args_schema(&[validation::PROVISIONER_ARGS])
}

pub(super) fn proxy_args(_: &mut SchemaGenerator) -> Schema {
    args_schema(&[validation::PROXY_ARGS])
}

pub(super) fn provisioner_env(_: &mut SchemaGenerator) -> Schema {
    env_schema(&[
        validation::PROVISIONER_ENV_URL,
        validation::PROVISIONER_ENV_KEY,
        validation::PROVISIONER_ENV_TAGS,
        validation::PROVISIONER_ENV_ORGANIZATION,
    ])
}

pub(super) fn proxy_env(_: &mut SchemaGenerator) -> Schema {
    env_schema(&[validation::PROXY_ENV_URL, validation::PROXY_ENV_TOKEN])
}

pub(super) fn pull_secrets(_: &mut SchemaGenerator) -> Schema {
    let secret = json_schema!({
        "description": "A Secret in the same namespace.",
        "type": "object",
        "required": ["name"],
        "properties": { "name": with_description("Its name.", string_schema(1, 253, &[NAME])) },
    });
    named_list_schema(16, &secret, &[])
}

pub(super) fn resources(_: &mut SchemaGenerator) -> Schema {
    let amount = json_schema!({
        "description": "An amount, like 500m or 2Gi.",
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY,
        "maxLength": 64,
        "x-kubernetes-int-or-string": true,
    });
    let amounts = |description: &str| with_description(description, map_schema(16, &amount, &[]));
    json_schema!({
        "type": "object",
        "properties": {
            "limits": amounts("The limit of the container."),
            "requests": amounts("The amount reserved for the container."),
        },
    })
}

fn map_schema(most: u32, value: &Schema, rules: &[CelRule]) -> Schema {
    let map = json_schema!({
        "type": "object",
        "maxProperties": most,
        "additionalProperties": value,
    });
    with_rules(map, rules)
}

/// A list of objects with unique names.
fn named_list_schema(most: u32, item: &Schema, rules: &[CelRule]) -> Schema {
    let list = json_schema!({
        "type": "array",
        "maxItems": most,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    });
    with_rules(list, rules)
}

fn args_schema(rules: &[CelRule]) -> Schema {
    let list = json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": with_description("An argument.", string_schema(1, 4096, &[])),
        "x-kubernetes-list-type": "atomic",
    });
    with_rules(list, rules)
}

fn env_schema(rules: &[CelRule]) -> Schema {
    let variable = json_schema!({
        "description": "A variable.",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": with_description("Its name.", string_schema(1, 256, &[validation::ENV_NAME])),
            "value": with_description("Its value.", string_schema(0, 32_768, &[])),
            "valueFrom": env_source_schema(),
        },
    });
    named_list_schema(64, &with_rules(variable, &[validation::ENV_EITHER]), rules)
}

/// The source of a variable's value.
fn env_source_schema() -> Schema {
    let source = json_schema!({
        "description": "The source of the value.",
        "type": "object",
        "properties": {
            "configMapKeyRef": key_selector_schema("ConfigMap"),
            "secretKeyRef": key_selector_schema("Secret"),
            "fieldRef": {
                "description": "A field of the pod.",
                "type": "object",
                "required": ["fieldPath"],
                "properties": {
                    "apiVersion": with_description("The version of its path.", string_schema(1, 64, &[])),
                    "fieldPath": with_description("Its path, like spec.nodeName.", string_schema(1, 512, &[])),
                },
            },
        },
    });
    with_rules(source, &[validation::ENV_SOURCE])
}

fn key_selector_schema(what: &str) -> Schema {
    json_schema!({
        "description": format!("A key of a {what} in the same namespace."),
        "type": "object",
        "required": ["name", "key"],
        "properties": {
            "name": with_description("Its name.", string_schema(1, 253, &[NAME])),
            "key": with_description("The key in it.", string_schema(1, 253, &[validation::DATA_KEY])),
            "optional": { "description": "Whether it may be missing.", "type": "boolean" },
        },
    })
}
