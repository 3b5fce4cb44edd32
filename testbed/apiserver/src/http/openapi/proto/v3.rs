//! The messages of gnostic's `OpenAPIv3.proto`, as far as the server's documents have them.

use serde_json::Value;

use super::Form::{Any, Anys, Choice, Choices, Double, Flag, Held, Int, Text, Texts, Words};
use super::{Form, Message, extended, map_of};

pub(super) static DOCUMENT: Message = extended(
    &[
        ("openapi", 1, Text),
        ("info", 2, Form::Message(&INFO)),
        ("paths", 4, Form::Message(&PATHS)),
        ("components", 5, Form::Message(&COMPONENTS)),
        ("security", 6, Form::Messages(&REQUIREMENT)),
    ],
    9,
);

static INFO: Message = extended(&[("title", 1, Text), ("description", 2, Text), ("version", 6, Text)], 7);

static PATHS: Message = Message {
    fields: &[],
    named: Some((1, Form::Message(&PATH_ITEM))),
    extensions: Some(2),
};

static COMPONENTS: Message = extended(
    &[
        ("schemas", 1, Form::Message(&SCHEMAS)),
        ("securitySchemes", 7, Form::Message(&SECURITY)),
    ],
    10,
);

static SCHEMAS: Message = map_of(Choice(schema));
static REQUIREMENT: Message = map_of(Words);
static SECURITY: Message = map_of(Choice(|_| Some((1, Form::Message(&SCHEME)))));
static CONTENT: Message = map_of(Form::Message(&MEDIA_TYPE));

static SCHEME: Message = extended(
    &[
        ("type", 1, Text),
        ("description", 2, Text),
        ("name", 3, Text),
        ("in", 4, Text),
        ("scheme", 5, Text),
        ("bearerFormat", 6, Text),
    ],
    9,
);

static PATH_ITEM: Message = extended(
    &[
        ("$ref", 1, Text),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("get", 4, Form::Message(&OPERATION)),
        ("put", 5, Form::Message(&OPERATION)),
        ("post", 6, Form::Message(&OPERATION)),
        ("delete", 7, Form::Message(&OPERATION)),
        ("options", 8, Form::Message(&OPERATION)),
        ("head", 9, Form::Message(&OPERATION)),
        ("patch", 10, Form::Message(&OPERATION)),
        ("parameters", 13, Choices(parameter)),
    ],
    14,
);

static OPERATION: Message = extended(
    &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, Choices(parameter)),
        ("requestBody", 7, Choice(|_| Some((1, Form::Message(&BODY))))),
        ("responses", 8, Form::Message(&RESPONSES)),
        ("deprecated", 10, Flag),
        ("security", 11, Form::Messages(&REQUIREMENT)),
    ],
    13,
);

static PARAMETER: Message = extended(
    &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Flag),
        ("deprecated", 5, Flag),
        ("allowEmptyValue", 6, Flag),
        ("schema", 10, Choice(schema)),
    ],
    14,
);

static BODY: Message = extended(
    &[
        ("description", 1, Text),
        ("content", 2, Form::Message(&CONTENT)),
        ("required", 3, Flag),
    ],
    4,
);

static RESPONSES: Message = Message {
    fields: &[("default", 1, Choice(response))],
    named: Some((2, Choice(response))),
    extensions: Some(3),
};

static RESPONSE: Message = extended(&[("description", 1, Text), ("content", 3, Form::Message(&CONTENT))], 5);

static MEDIA_TYPE: Message = extended(&[("schema", 1, Choice(schema)), ("example", 2, Any)], 5);

static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Text), ("summary", 2, Text), ("description", 3, Text)],
    named: None,
    extensions: None,
};

static SCHEMA: Message = extended(
    &[
        ("nullable", 1, Flag),
        ("readOnly", 3, Flag),
        ("writeOnly", 4, Flag),
        ("externalDocs", 6, Form::Message(&EXTERNAL_DOCS)),
        ("example", 7, Any),
        ("deprecated", 8, Flag),
        ("title", 9, Text),
        ("multipleOf", 10, Double),
        ("maximum", 11, Double),
        ("exclusiveMaximum", 12, Flag),
        ("minimum", 13, Double),
        ("exclusiveMinimum", 14, Flag),
        ("maxLength", 15, Int),
        ("minLength", 16, Int),
        ("pattern", 17, Text),
        ("maxItems", 18, Int),
        ("minItems", 19, Int),
        ("uniqueItems", 20, Flag),
        ("maxProperties", 21, Int),
        ("minProperties", 22, Int),
        ("required", 23, Texts),
        ("enum", 24, Anys),
        ("type", 25, Text),
        ("allOf", 26, Choices(schema)),
        ("oneOf", 27, Choices(schema)),
        ("anyOf", 28, Choices(schema)),
        ("not", 29, Form::Message(&SCHEMA)),
        ("items", 30, Held(&Choice(schema))),
        ("properties", 31, Form::Message(&SCHEMAS)),
        ("additionalProperties", 32, Choice(additional)),
        ("default", 33, Choice(default)),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    36,
);

static EXTERNAL_DOCS: Message = extended(&[("description", 1, Text), ("url", 2, Text)], 3);

fn is_reference(value: &Value) -> bool {
    !value["$ref"].is_null()
}

fn or_reference(value: &Value, message: &'static Message) -> Option<(u32, Form)> {
    if is_reference(value) {
        Some((2, Form::Message(&REFERENCE)))
    } else {
        Some((1, Form::Message(message)))
    }
}

fn schema(value: &Value) -> Option<(u32, Form)> {
    or_reference(value, &SCHEMA)
}

fn parameter(value: &Value) -> Option<(u32, Form)> {
    or_reference(value, &PARAMETER)
}

fn response(value: &Value) -> Option<(u32, Form)> {
    or_reference(value, &RESPONSE)
}

fn additional(value: &Value) -> Option<(u32, Form)> {
    if value.is_boolean() {
        Some((2, Flag))
    } else {
        Some((1, Choice(schema)))
    }
}

/// Lists and objects have no place in the message.
fn default(value: &Value) -> Option<(u32, Form)> {
    match value {
        Value::Number(_) => Some((1, Double)),
        Value::Bool(_) => Some((2, Flag)),
        Value::String(_) => Some((3, Text)),
        _ => None,
    }
}
