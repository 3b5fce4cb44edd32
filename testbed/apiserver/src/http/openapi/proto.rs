//! OpenAPI documents as gnostic's protobuf messages, which Go clients ask for.
//!
//! One encoder walks a JSON document by the tables of its edition (`v2`, `v3`); what the tables do
//! not name is not written, as gnostic's own reader refuses or drops it.

mod v2;
mod v3;
mod yaml;

use serde_json::{Map, Value};

/// Which OpenAPI a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Edition {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

/// What a member of a JSON object is on the wire.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Double,
    Int,
    /// Strings in a list, or one alone.
    Texts,
    /// Strings in a message of their own.
    Words,
    Message(&'static Message),
    /// Messages in a list, or one alone.
    Messages(&'static Message),
    /// One message that holds those of a list, or one alone.
    Held(&'static Form),
    /// A message with one field, chosen by the value.
    Choice(fn(&Value) -> Option<(u32, Form)>),
    /// Choices in a list.
    Choices(fn(&Value) -> Option<(u32, Form)>),
    /// Anything, as YAML.
    Any,
    /// A list of anything.
    Anys,
}

/// A message: its fields by the name they have in JSON, and where all others go.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    /// Members of any other name, as messages of a name and a value.
    named: Option<(u32, Form)>,
    /// Members called `x-...`.
    extensions: Option<u32>,
}

/// A message that is a map of messages.
const fn map_of(form: Form) -> Message {
    Message {
        fields: &[],
        named: Some((1, form)),
        extensions: None,
    }
}

/// A message that may have members called `x-...`.
const fn extended(fields: &'static [(&'static str, u32, Form)], extensions: u32) -> Message {
    Message {
        fields,
        named: None,
        extensions: Some(extensions),
    }
}

/// A document as its message.
#[must_use]
pub(super) fn document(edition: Edition, document: &Value) -> Vec<u8> {
    let message = match edition {
        Edition::V2 => &v2::DOCUMENT,
        Edition::V3 => &v3::DOCUMENT,
    };
    encode(document.as_object(), message)
}

/// One definition or path of a v2 document, as it stands in the message of all of them.
#[must_use]
pub(super) fn swagger_entry(of: &str, name: &str, value: &Value) -> Vec<u8> {
    let message = if of == "paths" { &v2::PATHS } else { &v2::DEFINITIONS };
    let single = Map::from_iter([(name.to_owned(), value.clone())]);
    encode(Some(&single), message)
}

/// A v2 document whose paths and definitions are messages already.
#[must_use]
pub(super) fn swagger(frame: &Value, paths: &[u8], definitions: &[u8]) -> Vec<u8> {
    let mut fields = fields_of(frame.as_object(), &v2::DOCUMENT);
    fields.push((8, delimited(8, paths)));
    fields.push((9, delimited(9, definitions)));
    joined(fields)
}

fn encode(object: Option<&Map<String, Value>>, message: &Message) -> Vec<u8> {
    joined(fields_of(object, message))
}

fn joined(mut fields: Vec<(u32, Vec<u8>)>) -> Vec<u8> {
    fields.sort_by_key(|(number, _)| *number);
    fields.into_iter().flat_map(|(_, bytes)| bytes).collect()
}

fn fields_of(object: Option<&Map<String, Value>>, message: &Message) -> Vec<(u32, Vec<u8>)> {
    let mut fields = Vec::new();
    for (key, value) in object.into_iter().flatten() {
        let known = message.fields.iter().find(|(name, ..)| name == key);
        if let Some((_, number, form)) = known {
            fields.push((*number, field(*number, *form, value, false)));
        } else if let Some(number) = message.extensions.filter(|_| key.starts_with("x-")) {
            fields.push((number, named(number, key, Form::Any, value)));
        } else if let Some((number, form)) = message.named {
            fields.push((number, named(number, key, form, value)));
        }
    }
    fields
}

fn named(number: u32, name: &str, form: Form, value: &Value) -> Vec<u8> {
    let mut inner = delimited(1, name.as_bytes());
    inner.extend(field(2, form, value, false));
    delimited(number, &inner)
}

/// A field; one that has its type's zero is only written where a choice has to be told.
fn field(number: u32, form: Form, value: &Value, always: bool) -> Vec<u8> {
    match form {
        Form::Text => {
            let text = value.as_str().unwrap_or_default();
            given(always || !text.is_empty(), || delimited(number, text.as_bytes()))
        }
        Form::Flag => {
            let flag = value.as_bool().unwrap_or_default();
            given(always || flag, || scalar(number, u64::from(flag)))
        }
        Form::Double => {
            let double = value.as_f64().unwrap_or_default();
            given(always || double != 0.0, || fixed(number, double))
        }
        Form::Int => {
            let int = value.as_i64().unwrap_or_default();
            given(always || int != 0, || scalar(number, int.cast_unsigned()))
        }
        Form::Texts => each(value, |text| {
            delimited(number, text.as_str().unwrap_or_default().as_bytes())
        }),
        Form::Words => delimited(number, &field(1, Form::Texts, value, false)),
        Form::Message(message) => delimited(number, &encode(value.as_object(), message)),
        Form::Messages(message) => each(value, |value| delimited(number, &encode(value.as_object(), message))),
        Form::Held(form) => delimited(number, &each(value, |value| field(1, *form, value, false))),
        Form::Choice(choose) => delimited(number, &chosen(value, choose)),
        Form::Choices(choose) => each(value, |value| delimited(number, &chosen(value, choose))),
        Form::Any => delimited(number, &any(value)),
        Form::Anys => each(value, |value| delimited(number, &any(value))),
    }
}

fn chosen(value: &Value, choose: fn(&Value) -> Option<(u32, Form)>) -> Vec<u8> {
    choose(value).map_or_else(Vec::new, |(number, form)| field(number, form, value, true))
}

fn any(value: &Value) -> Vec<u8> {
    delimited(2, yaml::write(value).as_bytes())
}

fn each(value: &Value, write: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    match value {
        Value::Array(items) => items.iter().flat_map(write).collect(),
        one => write(one),
    }
}

fn given(wanted: bool, write: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    if wanted { write() } else { Vec::new() }
}

fn delimited(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = tag(number, 2);
    varint(&mut out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out
}

fn scalar(number: u32, value: u64) -> Vec<u8> {
    let mut out = tag(number, 0);
    varint(&mut out, value);
    out
}

fn fixed(number: u32, value: f64) -> Vec<u8> {
    let mut out = tag(number, 1);
    out.extend_from_slice(&value.to_le_bytes());
    out
}

fn tag(number: u32, wire_type: u32) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, u64::from(number << 3 | wire_type));
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_small_document_is_written_as_gnostic_does() {
        let document = json!({
            "openapi": "3.0.0",
            "info": { "title": "Kubernetes", "version": "1.36" },
        });
        let bytes = b"\x0a\x053.0.0\x12\x12\x0a\x0aKubernetes\x32\x041.36";
        assert_eq!(super::document(Edition::V3, &document), bytes);
    }

    #[test]
    fn zeros_are_written_only_where_they_choose() {
        let schema = json!({ "minimum": 0, "additionalProperties": false });
        let bytes = encode(schema.as_object(), &v2::SCHEMA);
        assert_eq!(bytes, [0xaa, 0x01, 0x02, 0x10, 0x00]);
    }
}
