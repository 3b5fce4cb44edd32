//! Messages as JSON: what Go would print of the struct it reads from the same bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::special;
use super::table::{self, Count, Field, FieldKind, Message};
use super::wire::{Broken, Fields, Wire, varint};

/// How deep messages may lie in each other. Only schemas nest at all.
const DEPTH: usize = 128;

/// A reader of one body; it counts how deep it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    depth: usize,
}

impl Reader {
    /// A reader of what lies within.
    pub(super) fn deeper(self) -> Result<Self, Broken> {
        if self.depth == DEPTH {
            return Err("proto: message is nested too deeply".to_owned());
        }
        Ok(Self { depth: self.depth + 1 })
    }

    /// Reads a message into an object; says whether anything in it is not zero.
    pub(super) fn message(
        self,
        message: &Message,
        bytes: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<bool, Broken> {
        let name = message.name.as_str();
        let mut fields = Fields { name, bytes };
        let mut filled = false;
        while let Some((number, wire)) = fields.next()? {
            match message.field(number) {
                Some(field) => filled |= self.field(field, wire, object)?,
                None => fields.skip(wire)?,
            }
        }
        Ok(filled)
    }

    fn field(self, field: &Field, wire: Wire<'_>, object: &mut Map<String, Value>) -> Result<bool, Broken> {
        match field.count {
            Count::Inline => self.deeper()?.message(nested(field), bytes(field, wire)?, object),
            Count::One => self.one(field, wire, object),
            Count::Pointer => {
                let value = self.value(field, wire)?.0;
                object.insert(field.name.clone(), value);
                Ok(true)
            }
            Count::Many => {
                let values = match (field.kind, wire) {
                    (FieldKind::Bool | FieldKind::Int, Wire::Bytes(packed)) => packed_numbers(field, packed)?,
                    _ => vec![self.value(field, wire)?.0],
                };
                append(object, &field.name, values);
                Ok(true)
            }
            Count::Map => {
                let (key, value) = self.pair(field, bytes(field, wire)?)?;
                let map = object
                    .entry(field.name.as_str())
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(members) = map {
                    members.insert(key, value);
                }
                Ok(true)
            }
        }
    }

    /// A field that is always on the wire: what it says may be nothing, which JSON leaves out.
    fn one(self, field: &Field, wire: Wire<'_>, object: &mut Map<String, Value>) -> Result<bool, Broken> {
        let (value, filled) = match (field.kind, object.remove(&field.name)) {
            // Bytes that say the same message twice mean both together.
            (FieldKind::Message(place), Some(Value::Object(mut earlier))) => {
                let content = bytes(field, wire)?;
                self.deeper()?.message(table::message(place), content, &mut earlier)?;
                (Value::Object(earlier), true)
            }
            _ => self.value(field, wire)?,
        };
        let is_struct = value.is_object() || matches!(field.kind, FieldKind::Time | FieldKind::MicroTime);
        let omitted = !filled && (field.omit_zero || (field.omit_empty && !is_struct));
        if !omitted {
            object.insert(field.name.clone(), value);
        }
        Ok(filled)
    }

    /// The key and the value of a map.
    fn pair(self, field: &Field, bytes: &[u8]) -> Result<(String, Value), Broken> {
        let name = "MapEntry";
        let mut fields = Fields { name, bytes };
        let mut key = String::new();
        let mut value = None;
        while let Some((number, wire)) = fields.next()? {
            match (number, wire) {
                (1, Wire::Bytes(bytes)) => key = text(bytes),
                (2, wire) => value = Some(self.value(field, wire)?.0),
                (_, wire) => fields.skip(wire)?,
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.value(field, Wire::Bytes(&[]))?.0,
        };
        Ok((key, value))
    }

    /// One value, and whether it is anything but zero.
    fn value(self, field: &Field, wire: Wire<'_>) -> Result<(Value, bool), Broken> {
        Ok(match (field.kind, wire) {
            (FieldKind::Bool, Wire::Varint(number)) => (Value::Bool(number != 0), number != 0),
            (FieldKind::Int, Wire::Varint(number)) => (number.cast_signed().into(), number != 0),
            (FieldKind::Double, Wire::Fixed64(bits)) => (special::number(f64::from_bits(bits)), bits != 0),
            (FieldKind::Bool | FieldKind::Int | FieldKind::Double, wire) => {
                return Err(wrong(field, wire));
            }
            (FieldKind::Text, wire) => {
                let bytes = bytes(field, wire)?;
                (text(bytes).into(), !bytes.is_empty())
            }
            (FieldKind::Bytes, wire) => {
                let bytes = bytes(field, wire)?;
                (STANDARD.encode(bytes).into(), !bytes.is_empty())
            }
            (FieldKind::Message(place), wire) => {
                let mut object = Map::new();
                let content = bytes(field, wire)?;
                let filled = self.deeper()?.message(table::message(place), content, &mut object)?;
                (Value::Object(object), filled)
            }
            (kind, wire) => {
                let value = special::read(self.deeper()?, kind, bytes(field, wire)?)?;
                let filled = !value.is_null();
                (value, filled)
            }
        })
    }
}

/// Items of a list come one by one, or in several packs.
fn append(object: &mut Map<String, Value>, name: &str, values: Vec<Value>) {
    match object.entry(name) {
        Entry::Vacant(slot) => drop(slot.insert(Value::Array(values))),
        Entry::Occupied(mut slot) => {
            if let Value::Array(list) = slot.get_mut() {
                list.extend(values);
            }
        }
    }
}

/// Text as JSON can hold it: Go replaces what is not UTF-8 when it prints it.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn nested(field: &Field) -> &'static Message {
    match field.kind {
        FieldKind::Message(place) => table::message(place),
        _ => unreachable!("only structs are inlined"),
    }
}

fn bytes<'a>(field: &Field, wire: Wire<'a>) -> Result<&'a [u8], Broken> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        other => Err(wrong(field, other)),
    }
}

fn wrong(field: &Field, wire: Wire<'_>) -> Broken {
    let (number, name) = (wire.number(), &field.go);
    format!("proto: wrong wireType = {number} for field {name}")
}

fn packed_numbers(field: &Field, mut packed: &[u8]) -> Result<Vec<Value>, Broken> {
    let mut values = Vec::new();
    while !packed.is_empty() {
        let number = varint(&mut packed)?;
        values.push(match field.kind {
            FieldKind::Bool => (number != 0).into(),
            _ => number.cast_signed().into(),
        });
    }
    Ok(values)
}
