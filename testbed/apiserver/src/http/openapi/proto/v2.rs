//! The messages of gnostic's `OpenAPIv2.proto`, as far as the server's documents have them.

use serde_json::Value;

use super::Form::{Any, Anys, Choice, Choices, Double, Flag, Held, Int, Text, Texts, Words};
use super::{Form, Message, extended, map_of};

const fn plain(fields: &'static [(&'static str, u32, Form)]) -> Message {
    Message {
        fields,
        named: None,
        extensions: None,
    }
}

pub(super) static DOCUMENT: Message = extended(
    &[
        ("swagger", 1, Text),
        ("info", 2, Form::Message(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Texts),
        ("consumes", 6, Texts),
        ("produces", 7, Texts),
        ("paths", 8, Form::Message(&PATHS)),
        ("definitions", 9, Form::Message(&DEFINITIONS)),
        ("parameters", 10, Form::Message(&PARAMETERS)),
        ("security", 12, Form::Messages(&REQUIREMENT)),
        ("securityDefinitions", 13, Form::Message(&SECURITY)),
    ],
    16,
);

static INFO: Message = extended(&[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)], 7);

pub(super) static PATHS: Message = Message {
    fields: &[],
    named: Some((2, Form::Message(&PATH_ITEM))),
    extensions: Some(1),
};

pub(super) static DEFINITIONS: Message = map_of(Form::Message(&SCHEMA));
static PROPERTIES: Message = map_of(Form::Message(&SCHEMA));
static PARAMETERS: Message = map_of(Choice(parameter));
static REQUIREMENT: Message = map_of(Words);
static SECURITY: Message = map_of(Choice(|_| Some((2, Form::Message(&API_KEY)))));

static API_KEY: Message = extended(
    &[
        ("type", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("description", 4, Text),
    ],
    5,
);

static PATH_ITEM: Message = extended(
    &[
        ("$ref", 1, Text),
        ("get", 2, Form::Message(&OPERATION)),
        ("put", 3, Form::Message(&OPERATION)),
        ("post", 4, Form::Message(&OPERATION)),
        ("delete", 5, Form::Message(&OPERATION)),
        ("options", 6, Form::Message(&OPERATION)),
        ("head", 7, Form::Message(&OPERATION)),
        ("patch", 8, Form::Message(&OPERATION)),
        ("parameters", 9, Choices(parameter_or_reference)),
    ],
    10,
);

static OPERATION: Message = extended(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Choices(parameter_or_reference)),
        ("responses", 9, Form::Message(&RESPONSES)),
        ("schemes", 10, Texts),
        ("deprecated", 11, Flag),
        ("security", 12, Form::Messages(&REQUIREMENT)),
    ],
    13,
);

static RESPONSES: Message = Message {
    fields: &[],
    named: Some((1, Choice(response))),
    extensions: Some(2),
};

static RESPONSE: Message = extended(&[("description", 1, Text), ("schema", 2, Choice(schema))], 5);

static REFERENCE: Message = plain(&[("$ref", 1, Text), ("description", 2, Text)]);

static BODY_PARAMETER: Message = extended(
    &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Form::Message(&SCHEMA)),
    ],
    6,
);

static QUERY_PARAMETER: Message = extended(
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("allowEmptyValue", 5, Flag),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ],
    23,
);

/// Path and header parameters have no `allowEmptyValue`, and so other numbers.
static PATH_PARAMETER: Message = extended(
    &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ],
    22,
);

pub(super) static SCHEMA: Message = extended(
    &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Int),
        ("minLength", 12, Int),
        ("pattern", 13, Text),
        ("maxItems", 14, Int),
        ("minItems", 15, Int),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Int),
        ("minProperties", 18, Int),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, Choice(additional)),
        ("type", 22, Words),
        ("items", 23, Held(&Form::Message(&SCHEMA))),
        ("allOf", 24, Form::Messages(&SCHEMA)),
        ("properties", 25, Form::Message(&PROPERTIES)),
        ("readOnly", 27, Flag),
        ("externalDocs", 29, Form::Message(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    31,
);

static EXTERNAL_DOCS: Message = extended(&[("description", 1, Text), ("url", 2, Text)], 3);

fn is_reference(value: &Value) -> bool {
    !value["$ref"].is_null()
}

fn additional(value: &Value) -> Option<(u32, Form)> {
    if value.is_boolean() {
        Some((2, Flag))
    } else {
        Some((1, Form::Message(&SCHEMA)))
    }
}

fn schema(_: &Value) -> Option<(u32, Form)> {
    Some((1, Form::Message(&SCHEMA)))
}

fn response(value: &Value) -> Option<(u32, Form)> {
    if is_reference(value) {
        Some((2, Form::Message(&REFERENCE)))
    } else {
        Some((1, Form::Message(&RESPONSE)))
    }
}

fn parameter_or_reference(value: &Value) -> Option<(u32, Form)> {
    if is_reference(value) {
        Some((2, Form::Message(&REFERENCE)))
    } else {
        Some((1, Choice(parameter)))
    }
}

fn parameter(value: &Value) -> Option<(u32, Form)> {
    if value["in"] == "body" {
        Some((1, Form::Message(&BODY_PARAMETER)))
    } else {
        Some((2, Choice(other_parameter)))
    }
}

fn other_parameter(value: &Value) -> Option<(u32, Form)> {
    match value["in"].as_str()? {
        "header" => Some((1, Form::Message(&PATH_PARAMETER))),
        "path" => Some((4, Form::Message(&PATH_PARAMETER))),
        _ => Some((3, Form::Message(&QUERY_PARAMETER))),
    }
}
