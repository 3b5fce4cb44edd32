//! `metadata` read as the server's typed ObjectMeta: wrong types are Go's decoding errors, unknown
//! members are dropped and listed, empty members vanish.
//!
//! What the values mean (names, labels, finalizers) is not judged here.

use serde_json::{Map, Value};

use aplomb_go_compat as go;

/// Metadata after decoding.
#[derive(Debug, Default)]
pub struct Coerced {
    /// What is left.
    pub metadata: Map<String, Value>,
    /// Paths of dropped members, relative to the metadata.
    pub unknown: Vec<String>,
}

/// How Go declares a member.
enum Shape {
    Text(&'static str),
    Integer { pointer: bool },
    Flag,
    Time,
    TextMap,
    TextList,
    Raw,
    Structs(&'static Type),
}

struct Type {
    name: &'static str,
    members: &'static [(&'static str, Shape, Empty)],
}

/// What becomes of a member that is empty or missing.
#[derive(Clone, Copy, PartialEq)]
enum Empty {
    Omitted,
    Kept,
}
use Empty::{Kept, Omitted};

static OBJECT_META: Type = Type {
    name: "ObjectMeta",
    members: &[
        ("annotations", Shape::TextMap, Omitted),
        ("creationTimestamp", Shape::Time, Omitted),
        ("deletionGracePeriodSeconds", Shape::Integer { pointer: true }, Omitted),
        ("deletionTimestamp", Shape::Time, Omitted),
        ("finalizers", Shape::TextList, Omitted),
        ("generateName", Shape::Text("string"), Omitted),
        ("generation", Shape::Integer { pointer: false }, Omitted),
        ("labels", Shape::TextMap, Omitted),
        ("managedFields", Shape::Structs(&MANAGED_FIELDS), Omitted),
        ("name", Shape::Text("string"), Omitted),
        ("namespace", Shape::Text("string"), Omitted),
        ("ownerReferences", Shape::Structs(&OWNER_REFERENCE), Omitted),
        ("resourceVersion", Shape::Text("string"), Omitted),
        ("selfLink", Shape::Text("string"), Omitted),
        ("uid", Shape::Text("types.UID"), Omitted),
    ],
};

static OWNER_REFERENCE: Type = Type {
    name: "OwnerReference",
    members: &[
        ("apiVersion", Shape::Text("string"), Kept),
        ("blockOwnerDeletion", Shape::Flag, Omitted),
        ("controller", Shape::Flag, Omitted),
        ("kind", Shape::Text("string"), Kept),
        ("name", Shape::Text("string"), Kept),
        ("uid", Shape::Text("types.UID"), Kept),
    ],
};

static MANAGED_FIELDS: Type = Type {
    name: "ManagedFieldsEntry",
    members: &[
        ("apiVersion", Shape::Text("string"), Omitted),
        ("fieldsType", Shape::Text("string"), Omitted),
        ("fieldsV1", Shape::Raw, Omitted),
        ("manager", Shape::Text("string"), Omitted),
        ("operation", Shape::Text("v1.ManagedFieldsOperationType"), Omitted),
        ("subresource", Shape::Text("string"), Omitted),
        ("time", Shape::Time, Omitted),
    ],
};

/// Decodes `metadata`.
///
/// # Errors
/// Go's message for the first member, in order of keys, that has the wrong type.
pub fn coerce(metadata: &Value) -> Result<Coerced, String> {
    match metadata {
        Value::Null => Ok(Coerced::default()),
        Value::Object(map) => {
            let mut reader = Reader {
                unknown: Vec::new(),
                error: None,
            };
            let metadata = reader.members(map, &OBJECT_META, "", "");
            reader.error.map_or(
                Ok(Coerced {
                    metadata,
                    unknown: reader.unknown,
                }),
                Err,
            )
        }
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            token(other)
        )),
    }
}

struct Reader {
    unknown: Vec<String>,
    error: Option<String>,
}

impl Reader {
    /// `path` locates the struct for people, `trail` for Go, which leaves out indices.
    fn members(&mut self, map: &Map<String, Value>, kind: &Type, path: &str, trail: &str) -> Map<String, Value> {
        let mut out = Map::new();
        for (name, value) in map {
            let Some((_, shape, empty)) = kind.members.iter().find(|(known, ..)| known == name) else {
                self.unknown.push(format!("{path}{name}"));
                continue;
            };
            let at = Place {
                owner: kind.name,
                trail: format!("{trail}{name}"),
                path: format!("{path}{name}"),
            };
            let read = self.value(value, shape, &at);
            if let Some(read) = read.filter(|read| *empty == Kept || !is_empty(read, shape)) {
                out.insert(name.clone(), read);
            }
        }
        for (name, ..) in kind.members.iter().filter(|(.., empty)| *empty == Kept) {
            out.entry(*name).or_insert_with(|| "".into());
        }
        out
    }

    fn value(&mut self, value: &Value, shape: &Shape, at: &Place) -> Option<Value> {
        if value.is_null() && !matches!(shape, Shape::Raw) {
            return None;
        }
        match (shape, value) {
            (Shape::Text(_), Value::String(_)) | (Shape::Flag, Value::Bool(_)) | (Shape::Raw, _) => Some(value.clone()),
            (Shape::Text(wanted), _) => self.mismatch(value, wanted, at),
            (Shape::Flag, _) => self.mismatch(value, "bool", at),
            (Shape::Integer { .. }, Value::Number(number)) if number.is_i64() => Some(value.clone()),
            (Shape::Integer { .. }, _) => self.mismatch(value, "int64", at),
            (Shape::Time, Value::String(text)) => self.time(text),
            (Shape::Time, _) => self.mismatch(value, "string", at),
            (Shape::TextMap, Value::Object(map)) => Some(self.texts(map, at)),
            (Shape::TextMap, _) => self.mismatch(value, "map[string]string", at),
            (Shape::TextList, Value::Array(items)) => Some(items.iter().map(|item| self.text(item, at)).collect()),
            (Shape::TextList, _) => self.mismatch(value, "[]string", at),
            (Shape::Structs(kind), Value::Array(items)) => Some(self.structs(items, kind, at)),
            (Shape::Structs(kind), _) => self.mismatch(value, &format!("[]v1.{}", kind.name), at),
        }
    }

    fn time(&mut self, text: &str) -> Option<Value> {
        match go::time::seconds(text) {
            Ok(time) => Some(time.into()),
            Err(message) => {
                self.error.get_or_insert(message);
                None
            }
        }
    }

    fn text(&mut self, value: &Value, at: &Place) -> Value {
        match value {
            Value::String(_) => value.clone(),
            Value::Null => "".into(),
            other => self.mismatch(other, "string", at).unwrap_or_default(),
        }
    }

    fn texts(&mut self, map: &Map<String, Value>, at: &Place) -> Value {
        map.iter()
            .map(|(key, value)| (key.clone(), self.text(value, at)))
            .collect()
    }

    fn structs(&mut self, items: &[Value], kind: &'static Type, at: &Place) -> Value {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let empty = Map::new();
            let map = match item {
                Value::Object(map) => map,
                Value::Null => &empty,
                other => {
                    self.mismatch(other, &format!("v1.{}", kind.name), at);
                    continue;
                }
            };
            let (path, trail) = (format!("{}[{index}].", at.path), format!("{}.", at.trail));
            out.push(Value::Object(self.members(map, kind, &path, &trail)));
        }
        Value::Array(out)
    }

    fn mismatch(&mut self, value: &Value, wanted: &str, at: &Place) -> Option<Value> {
        let what = match value {
            Value::Number(number) if wanted == "int64" => {
                format!("number {}", go::json(&number.clone().into()))
            }
            other => token(other).to_owned(),
        };
        let Place { owner, trail, .. } = at;
        let message = format!("json: cannot unmarshal {what} into Go struct field {owner}.{trail} of type {wanted}");
        self.error.get_or_insert(message);
        None
    }
}

struct Place {
    owner: &'static str,
    trail: String,
    path: String,
}

fn is_empty(value: &Value, shape: &Shape) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && !matches!(shape, Shape::Raw),
        Value::Number(number) => matches!(shape, Shape::Integer { pointer: false }) && number.as_i64() == Some(0),
        Value::Null => true,
        Value::Bool(_) => false,
    }
}

/// What Go's decoder calls a JSON value.
fn token(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
