//! The frame around every object: four bytes of magic, then a message that says what kind the object
//! is and holds its bytes.

use aplomb_apimachinery::field::go_quote;
use aplomb_apimachinery::status::ApiError;
use serde_json::{Map, Value};

use super::read::{Reader, text};
use super::wire::{Broken, Fields, Wire, put_bytes, put_nested};
use super::{MAGIC, table, write};

/// Why a body is not an object.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It does not even say what it is.
    Frame(String),
    /// It says what it is and is not that.
    Content(Content),
}

/// What a body said it was, and why it is not.
#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    pub(in crate::http) api_version: String,
    pub(in crate::http) kind: String,
    why: String,
}

impl Unreadable {
    /// Go's words alone.
    #[must_use]
    pub fn why(self) -> String {
        match self {
            Self::Frame(why) | Self::Content(Content { why, .. }) => why,
        }
    }
}

impl Content {
    /// 400 where another kind was expected, or this one.
    pub(in crate::http) fn unhandled(self, expected: &str) -> ApiError {
        let version = self.api_version.rsplit('/').next().unwrap_or_default();
        ApiError::bad_request(format!(
            "{} in version {} cannot be handled as a {expected}: {}",
            self.kind,
            go_quote(version),
            self.why
        ))
    }
}

struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

/// A body as JSON. What it does not say of its kind is taken from `expected`, an apiVersion and a
/// kind. Of a kind no table knows only the name is read, which is enough to refuse it.
///
/// # Errors
/// Go's words for bytes that are no message.
pub fn decode(body: &[u8], expected: (&str, &str)) -> Result<Value, Unreadable> {
    let mut envelope = open(body).map_err(Unreadable::Frame)?;
    if envelope.kind.is_empty() {
        expected.1.clone_into(&mut envelope.kind);
    }
    // What is no group and version says nothing.
    if envelope.api_version.is_empty() || envelope.api_version.matches('/').count() > 1 {
        expected.0.clone_into(&mut envelope.api_version);
    }
    object(Reader::default(), &envelope).map_err(|why| {
        Unreadable::Content(Content {
            api_version: envelope.api_version,
            kind: envelope.kind,
            why,
        })
    })
}

/// An object or a list as a body; `None` for what has no protobuf form.
#[must_use]
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let message = table::find(api_version, kind)?;
    let mut out = MAGIC.to_vec();
    put_nested(&mut out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    put_nested(&mut out, 2, |out| write::message(out, message, object));
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    Some(out)
}

/// 406 for an object that has no protobuf form.
#[must_use]
pub(in crate::http) fn not_marshalable() -> ApiError {
    let message = "object *unstructured.Unstructured does not implement the protobuf marshalling \
                   interface and cannot be encoded to a protobuf message";
    ApiError::new(406, "NotAcceptable", message)
}

/// An object within another message.
pub(super) fn read(reader: Reader, body: &[u8]) -> Result<Value, Broken> {
    object(reader, &open(body)?)
}

fn object(reader: Reader, envelope: &Envelope<'_>) -> Result<Value, Broken> {
    let mut members = Map::new();
    if let Some(message) = table::find(&envelope.api_version, &envelope.kind) {
        reader.deeper()?.message(message, envelope.raw, &mut members)?;
    }
    members.insert("kind".into(), envelope.kind.as_str().into());
    // Two documents of discovery have none.
    if !envelope.api_version.is_empty() {
        members.insert("apiVersion".into(), envelope.api_version.as_str().into());
    }
    Ok(Value::Object(members))
}

fn open(body: &[u8]) -> Result<Envelope<'_>, Broken> {
    if body.is_empty() {
        return Err("empty data".to_owned());
    }
    let bytes = body.strip_prefix(MAGIC).ok_or_else(|| {
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".to_owned()
    })?;
    if bytes.is_empty() {
        return Err("empty body".to_owned());
    }
    let mut envelope = Envelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
    };
    let name = "Unknown";
    let mut fields = Fields { name, bytes };
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            (1, Wire::Bytes(meta)) => type_meta(meta, &mut envelope)?,
            (2, Wire::Bytes(raw)) => envelope.raw = raw,
            (1..=4, Wire::Bytes(_)) => {}
            (1..=4, wire) => {
                let field = ["TypeMeta", "Raw", "ContentEncoding", "ContentType"];
                let field = field[usize::try_from(number).unwrap_or(1) - 1];
                let wire = wire.number();
                return Err(format!("proto: wrong wireType = {wire} for field {field}"));
            }
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(envelope)
}

fn type_meta(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), Broken> {
    let name = "TypeMeta";
    let mut fields = Fields { name, bytes };
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => envelope.api_version = text(bytes),
            (2, Wire::Bytes(bytes)) => envelope.kind = text(bytes),
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(())
}
