//! JSON as messages, in the order and with the zeros the server writes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::special;
use super::table::{self, Count, Field, FieldKind, Message};
use super::wire::{put_bytes, put_nested, put_number, put_tag};

/// Writes an object as a message. What the object does not say is zero.
pub(super) fn message(out: &mut Vec<u8>, message: &Message, object: &Value) {
    for field in &message.fields {
        write_field(out, field, object);
    }
}

fn write_field(out: &mut Vec<u8>, field: &Field, object: &Value) {
    let given = object.get(&field.name).filter(|value| !value.is_null());
    match field.count {
        Count::Inline => value(out, field.number, field.kind, object),
        // A nil list of bytes is not written; an empty one cannot be told from it in JSON.
        Count::One if field.kind == FieldKind::Bytes && given.is_none() => {}
        Count::One => value(out, field.number, field.kind, given.unwrap_or(&Value::Null)),
        Count::Pointer => {
            if let Some(given) = given {
                value(out, field.number, field.kind, given);
            }
        }
        Count::Many => {
            for item in given.and_then(Value::as_array).into_iter().flatten() {
                value(out, field.number, field.kind, item);
            }
        }
        Count::Map => {
            let members = given.and_then(Value::as_object).into_iter().flatten();
            let mut members: Vec<_> = members.collect();
            members.sort_by_key(|(key, _)| key.as_bytes());
            for (key, member) in members {
                put_nested(out, field.number, |out| {
                    put_bytes(out, 1, key.as_bytes());
                    value(out, 2, field.kind, member);
                });
            }
        }
    }
}

/// Writes one value under a number.
fn value(out: &mut Vec<u8>, number: u64, kind: FieldKind, given: &Value) {
    match kind {
        FieldKind::Bool => put_number(out, number, given.as_bool().unwrap_or_default().into()),
        FieldKind::Int => put_number(out, number, integer(given).cast_unsigned()),
        FieldKind::Double => {
            put_tag(out, number, 1);
            out.extend_from_slice(&given.as_f64().unwrap_or_default().to_le_bytes());
        }
        FieldKind::Text => put_bytes(out, number, given.as_str().unwrap_or_default().as_bytes()),
        FieldKind::Bytes => {
            let bytes = STANDARD.decode(given.as_str().unwrap_or_default());
            put_bytes(out, number, &bytes.unwrap_or_default());
        }
        FieldKind::Message(place) => {
            put_nested(out, number, |out| message(out, table::message(place), given));
        }
        kind => put_nested(out, number, |out| special::write(out, kind, given)),
    }
}

/// A whole number, however JSON spells it.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn integer(given: &Value) -> i64 {
    let whole = given.as_i64();
    whole.unwrap_or_else(|| given.as_f64().unwrap_or_default() as i64)
}
