//! The vendored table of messages, read when the first protobuf body comes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// What one value of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    Bool,
    Int,
    Double,
    Text,
    /// Base64 in JSON.
    Bytes,
    /// Another message, by its place in the table.
    Message(usize),
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON text inside the message.
    Raw,
    /// A list of texts that is a message of its own.
    Strings,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// One, written even when it is zero.
    One,
    /// One or none.
    Pointer,
    Many,
    /// A map from text.
    Map,
    /// A message whose members stand in the object around it.
    Inline,
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// Name in JSON.
    pub(super) name: String,
    /// Name in Go, which errors mention.
    pub(super) go: String,
    pub(super) kind: FieldKind,
    pub(super) count: Count,
    /// JSON leaves it out when it is empty.
    pub(super) omit_empty: bool,
    /// JSON leaves it out when all within it is zero.
    pub(super) omit_zero: bool,
}

/// A message: its fields by number.
#[derive(Debug)]
pub(super) struct Message {
    /// Name in Go, without the package.
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

impl Message {
    /// The field with a number.
    pub(super) fn field(&self, number: u64) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number);
        at.ok().map(|at| &self.fields[at])
    }
}

#[derive(Deserialize)]
struct RawField {
    #[serde(default)]
    n: String,
    g: Option<String>,
    p: u64,
    t: String,
    #[serde(default)]
    o: bool,
    #[serde(default)]
    z: bool,
}

#[derive(Deserialize)]
struct RawTable {
    kinds: BTreeMap<String, String>,
    messages: BTreeMap<String, Vec<RawField>>,
}

struct Table {
    messages: Vec<Message>,
    /// `group/version/Kind` to a place in `messages`.
    kinds: BTreeMap<String, usize>,
    schema: usize,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let raw: RawTable =
        serde_json::from_str(include_str!("data/messages.json")).expect("the vendored messages are valid");
    let names: Vec<String> = raw.messages.keys().cloned().collect();
    let places: BTreeMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    let place = |name: &str| {
        let place = places.get(name);
        *place.expect("every named message is in the vendored table")
    };
    let schema = place("apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps");
    let kinds = raw.kinds.into_iter();
    let kinds = kinds.map(|(kind, name)| (kind, place(&name))).collect();
    let messages = raw.messages.into_iter();
    let messages = messages.map(|(name, fields)| Message {
        name: name.rsplit('.').next().unwrap_or_default().to_owned(),
        fields: fields.into_iter().map(|raw| field(raw, &place)).collect(),
    });
    Table {
        messages: messages.collect(),
        kinds,
        schema,
    }
});

fn field(raw: RawField, place: &impl Fn(&str) -> usize) -> Field {
    let (count, kind) = if let Some(kind) = raw.t.strip_prefix('*') {
        (Count::Pointer, kind)
    } else if let Some(kind) = raw.t.strip_prefix("[]") {
        (Count::Many, kind)
    } else if let Some(kind) = raw.t.strip_prefix("map:") {
        (Count::Map, kind)
    } else if raw.n.is_empty() {
        (Count::Inline, raw.t.as_str())
    } else {
        (Count::One, raw.t.as_str())
    };
    let kind = match kind {
        "bool" => FieldKind::Bool,
        "int32" | "int64" => FieldKind::Int,
        "float64" => FieldKind::Double,
        "string" => FieldKind::Text,
        "bytes" => FieldKind::Bytes,
        "Time" => FieldKind::Time,
        "MicroTime" => FieldKind::MicroTime,
        "Quantity" => FieldKind::Quantity,
        "IntOrString" => FieldKind::IntOrString,
        "Raw" => FieldKind::Raw,
        "Strings" => FieldKind::Strings,
        "SchemaOrBool" => FieldKind::SchemaOrBool,
        "SchemaOrArray" => FieldKind::SchemaOrArray,
        "SchemaOrStrings" => FieldKind::SchemaOrStrings,
        name => FieldKind::Message(place(name)),
    };
    Field {
        number: raw.p,
        go: raw.g.unwrap_or_else(|| capital(&raw.n)),
        name: raw.n,
        kind,
        count,
        omit_empty: raw.o,
        omit_zero: raw.z,
    }
}

fn capital(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// The message at a place.
pub(super) fn message(place: usize) -> &'static Message {
    &TABLE.messages[place]
}

/// `JSONSchemaProps`, which the special types around it are written with.
pub(super) fn schema() -> &'static Message {
    message(TABLE.schema)
}

/// The message of a kind; options are of every version, and two documents of discovery say none.
pub(super) fn find(api_version: &str, kind: &str) -> Option<&'static Message> {
    let api_version = if api_version.is_empty() { "v1" } else { api_version };
    let key = format!("{api_version}/{kind}");
    let place = TABLE.kinds.get(&key).or_else(|| TABLE.kinds.get(kind))?;
    Some(message(*place))
}

/// Every kind with its version, for tests that go through all of them.
#[cfg(test)]
pub(super) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let keys = TABLE.kinds.keys();
    keys.map(|key| key.rsplit_once('/').unwrap_or(("v1", key)))
}
