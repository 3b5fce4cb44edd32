//! Objects made by chance from the table, as Go would print them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::table::{self, Count, Field, FieldKind, Message};

/// How deep a schema may lie in itself.
const DEPTH: usize = 6;

pub(super) struct Chance(pub(super) fastrand::Rng);

impl Chance {
    /// An object of a message.
    pub(super) fn object(&mut self, message: &Message, depth: usize) -> Map<String, Value> {
        let mut object = Map::new();
        for field in &message.fields {
            self.field(field, depth, &mut object);
        }
        object
    }

    fn field(&mut self, field: &Field, depth: usize, object: &mut Map<String, Value>) {
        let here = depth < DEPTH && self.0.u8(0..3) == 0;
        match (field.count, field.kind) {
            (Count::Inline, FieldKind::Message(place)) => {
                object.extend(self.object(table::message(place), depth + 1));
            }
            (Count::Pointer, _) if here => {
                object.insert(field.name.clone(), self.value(field.kind, depth + 1));
            }
            (Count::Many, kind) if here => {
                let count = self.0.usize(1..3);
                let items = (0..count).map(|_| self.value(kind, depth + 1)).collect();
                object.insert(field.name.clone(), items);
            }
            (Count::Map, kind) if here => {
                let count = self.0.usize(1..3);
                let members = (0..count).map(|_| (self.text(), self.value(kind, depth + 1)));
                object.insert(field.name.clone(), members.collect());
            }
            (Count::One, kind) => self.one(field, kind, depth, object),
            _ => {}
        }
    }

    /// A value that is always written, zero or not, and in JSON left out when it is zero.
    fn one(&mut self, field: &Field, kind: FieldKind, depth: usize, object: &mut Map<String, Value>) {
        let value = match kind {
            FieldKind::Message(place) => {
                let nested = self.object(table::message(place), depth + 1);
                // Zero within zero is left out as a whole; what holds it is not made here.
                if field.omit_zero && nested.is_empty() {
                    return;
                }
                Value::Object(nested)
            }
            FieldKind::Bytes if self.0.bool() => return,
            kind => self.value(kind, depth + 1),
        };
        let empty = value == "" || value == 0 || value == false || value == json!([]);
        // Go does not take a struct for empty.
        let empty = empty && kind != FieldKind::IntOrString;
        if !(empty && (field.omit_empty || field.omit_zero)) {
            object.insert(field.name.clone(), value);
        }
    }

    fn value(&mut self, kind: FieldKind, depth: usize) -> Value {
        match kind {
            FieldKind::Bool => self.0.bool().into(),
            FieldKind::Int => self.number().into(),
            FieldKind::Double => json!(f64::from(self.0.i32(..)) + 0.25),
            FieldKind::Text => self.text().into(),
            FieldKind::Bytes => STANDARD.encode(self.text() + "x").into(),
            FieldKind::Message(place) => Value::Object(self.object(table::message(place), depth)),
            FieldKind::Time => self.time().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
            FieldKind::MicroTime => format!("{:.6}", self.time()).into(),
            FieldKind::Quantity => ["0", "1500m", "2Gi", "-3"][self.0.usize(0..4)].into(),
            FieldKind::IntOrString if self.0.bool() => self.text().into(),
            FieldKind::IntOrString => self.number().into(),
            FieldKind::Raw => json!({ "a": [1, "b", { "c": 0.5 }], "e": self.text() }),
            FieldKind::Strings => json!([self.text(), ""]),
            FieldKind::SchemaOrBool if self.0.bool() => self.0.bool().into(),
            FieldKind::SchemaOrArray if self.0.bool() => json!([self.schema(depth), {}]),
            FieldKind::SchemaOrStrings if self.0.bool() => json!([self.text()]),
            FieldKind::SchemaOrBool | FieldKind::SchemaOrArray | FieldKind::SchemaOrStrings => self.schema(depth),
        }
    }

    fn schema(&mut self, depth: usize) -> Value {
        Value::Object(self.object(table::schema(), depth + 1))
    }

    fn number(&mut self) -> i64 {
        match self.0.u8(0..3) {
            0 => 0,
            1 => self.0.i64(-200..200),
            _ => self.0.i32(..).into(),
        }
    }

    fn time(&mut self) -> jiff::Timestamp {
        let seconds = self.0.i64(-1_000_000..4_000_000_000);
        let micros = self.0.i32(0..1_000_000);
        jiff::Timestamp::new(seconds, micros * 1000).expect("within range")
    }

    fn text(&mut self) -> String {
        let length = self.0.usize(0..3) * self.0.usize(0..60);
        (0..length).map(|_| self.0.char(' '..='é')).collect()
    }
}
