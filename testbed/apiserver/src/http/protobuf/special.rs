//! Types whose JSON is not an object of their fields: times, quantities, ports by number or name,
//! JSON within a message, and the alternatives of a schema.

use aplomb_apimachinery::json;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::read::{Reader, text};
use super::table::{self, FieldKind};
use super::wire::{Broken, Fields, Wire, put_bytes, put_nested, put_number};
use super::write::{self, integer};
use super::{MAGIC, envelope};

/// Reads the content of a special type; null where it says nothing.
pub(super) fn read(reader: Reader, kind: FieldKind, bytes: &[u8]) -> Result<Value, Broken> {
    match kind {
        FieldKind::Time | FieldKind::MicroTime => read_time(kind, bytes),
        FieldKind::Quantity => Ok(Parts::of("Quantity", bytes)?.first_text().into()),
        FieldKind::IntOrString => {
            let parts = Parts::of("IntOrString", bytes)?;
            let is_text = parts.numbers[1] != 0;
            Ok(if is_text {
                text(parts.texts.last().copied().unwrap_or_default()).into()
            } else {
                parts.numbers[2].cast_signed().into()
            })
        }
        FieldKind::Raw => read_raw(reader, Parts::of("RawExtension", bytes)?.texts.last().copied()),
        FieldKind::Strings => {
            let texts = Parts::of("Items", bytes)?.texts;
            Ok(texts.into_iter().map(text).collect())
        }
        FieldKind::SchemaOrBool => read_schema_or_bool(reader, bytes),
        FieldKind::SchemaOrArray | FieldKind::SchemaOrStrings => read_schema_or_list(reader, kind, bytes),
        _ => Ok(Value::Null),
    }
}

/// Writes the content of a special type.
pub(super) fn write(out: &mut Vec<u8>, kind: FieldKind, given: &Value) {
    match (kind, given) {
        (FieldKind::Time | FieldKind::MicroTime, given) => write_time(out, kind, given),
        (FieldKind::Quantity, Value::String(text)) => put_bytes(out, 1, text.as_bytes()),
        (FieldKind::Quantity, Value::Number(number)) => {
            put_bytes(out, 1, number.to_string().as_bytes());
        }
        (FieldKind::Quantity, _) => put_bytes(out, 1, b"0"),
        (FieldKind::IntOrString, given) => {
            let text = given.as_str();
            put_number(out, 1, text.is_some().into());
            put_number(out, 2, integer(given).cast_unsigned());
            put_bytes(out, 3, text.unwrap_or_default().as_bytes());
        }
        (FieldKind::Raw, Value::Null) => {}
        (FieldKind::Raw, given) => put_bytes(out, 1, given.to_string().as_bytes()),
        (FieldKind::Strings, given) => write_texts(out, 1, given),
        (FieldKind::SchemaOrBool, given) => {
            put_number(out, 1, given.as_bool().unwrap_or(given.is_object()).into());
            write_schema(out, 2, given);
        }
        (FieldKind::SchemaOrArray, given) => {
            write_schema(out, 1, given);
            for item in given.as_array().into_iter().flatten() {
                write_schema(out, 2, item);
            }
        }
        (FieldKind::SchemaOrStrings, given) => {
            write_schema(out, 1, given);
            write_texts(out, 2, given);
        }
        _ => {}
    }
}

fn write_schema(out: &mut Vec<u8>, number: u64, given: &Value) {
    if given.is_object() {
        put_nested(out, number, |out| {
            write::message(out, table::schema(), given);
        });
    }
}

fn write_texts(out: &mut Vec<u8>, number: u64, given: &Value) {
    for item in given.as_array().into_iter().flatten() {
        put_bytes(out, number, item.as_str().unwrap_or_default().as_bytes());
    }
}

/// The fields of a small message, by kind.
struct Parts<'a> {
    /// By number, up to the third field.
    numbers: [u64; 4],
    texts: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(name: &'static str, bytes: &'a [u8]) -> Result<Self, Broken> {
        let mut parts = Self {
            numbers: [0; 4],
            texts: Vec::new(),
        };
        let mut fields = Fields { name, bytes };
        while let Some((number, wire)) = fields.next()? {
            let slot = usize::try_from(number).unwrap_or(usize::MAX);
            match wire {
                Wire::Varint(value) => {
                    if let Some(place) = parts.numbers.get_mut(slot) {
                        *place = value;
                    }
                }
                Wire::Bytes(bytes) => parts.texts.push(bytes),
                wire => fields.skip(wire)?,
            }
        }
        Ok(parts)
    }

    fn first_text(&self) -> String {
        text(self.texts.first().copied().unwrap_or_default())
    }
}

fn read_time(kind: FieldKind, bytes: &[u8]) -> Result<Value, Broken> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let numbers = Parts::of("Timestamp", bytes)?.numbers;
    let (seconds, nanos) = (numbers[1].cast_signed(), numbers[2].cast_signed());
    let out_of_range = |_: jiff::Error| "Time.MarshalJSON: year outside of range [0,9999]".to_owned();
    let nanos = i32::try_from(nanos).unwrap_or_default();
    Ok(if kind == FieldKind::Time {
        let time = Timestamp::from_second(seconds).map_err(out_of_range)?;
        time.to_string().into()
    } else {
        let time = Timestamp::new(seconds, nanos / 1000 * 1000).map_err(out_of_range)?;
        format!("{time:.6}").into()
    })
}

fn write_time(out: &mut Vec<u8>, kind: FieldKind, given: &Value) {
    let time = given.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    // Go's zero time is written as nothing.
    let Some(time) = time.filter(|time| time.as_second() != -62_135_596_800) else {
        return;
    };
    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
    let seconds = time.as_nanosecond().div_euclid(1_000_000_000);
    put_number(out, 1, i64::try_from(seconds).unwrap_or_default().cast_unsigned());
    let micros = if kind == FieldKind::MicroTime { nanos / 1000 } else { 0 };
    put_number(out, 2, u64::try_from(micros * 1000).unwrap_or_default());
}

/// JSON, or in a watch event an object with an envelope of its own.
fn read_raw(reader: Reader, raw: Option<&[u8]>) -> Result<Value, Broken> {
    match raw {
        None | Some([]) => Ok(Value::Null),
        Some(raw) if raw.starts_with(MAGIC) => envelope::read(reader, raw),
        Some(raw) => Ok(json::parse(raw)?.value),
    }
}

fn read_schema(reader: Reader, bytes: &[u8]) -> Result<Value, Broken> {
    let mut object = Map::new();
    reader.deeper()?.message(table::schema(), bytes, &mut object)?;
    Ok(Value::Object(object))
}

fn read_schema_or_bool(reader: Reader, bytes: &[u8]) -> Result<Value, Broken> {
    let parts = Parts::of("JSONSchemaPropsOrBool", bytes)?;
    match parts.texts.last() {
        Some(schema) => read_schema(reader, schema),
        None => Ok(Value::Bool(parts.numbers[1] != 0)),
    }
}

/// One schema under 1, or many schemas or texts under 2.
fn read_schema_or_list(reader: Reader, kind: FieldKind, bytes: &[u8]) -> Result<Value, Broken> {
    let name = "JSONSchemaProps";
    let mut fields = Fields { name, bytes };
    let mut list = Vec::new();
    let mut only = None;
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            (1, Wire::Bytes(schema)) => only = Some(read_schema(reader, schema)?),
            (2, Wire::Bytes(schema)) if kind == FieldKind::SchemaOrArray => {
                list.push(read_schema(reader, schema)?);
            }
            (2, Wire::Bytes(name)) => list.push(text(name).into()),
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(match (list.is_empty(), only) {
        (true, Some(schema)) => schema,
        (true, None) => Value::Null,
        (false, _) => Value::Array(list),
    })
}

/// A number as Go prints it: whole ones without a fraction.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
pub(super) fn number(value: f64) -> Value {
    let whole = value as i64;
    if whole as f64 == value && value.abs() < 9.0e15 {
        whole.into()
    } else {
        value.into()
    }
}
