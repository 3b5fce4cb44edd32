//! Reads JSON into a Go type and writes it back, as the Go server's typed decoding does.
//!
//! What comes out is what the server would answer: unknown fields gone, zero values shown or
//! omitted as the struct tags say, numbers, times and quantities in their canonical spelling.
//! Defaults and validation are not made here.

use std::fmt::Write as _;

use aplomb_go_compat::{base64 as gobase64, time as gotime};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::encode::{inlined, is_omitted, show_unset, zero};
use super::gotype::{Field, GoType, Named, Shape, named, print};
use super::quantity::Quantity;

/// A body that could be read.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) object: Value,
    pub(super) unknown: Vec<String>,
}

/// Reads `body` as the Go type `type_name`; the error is Go's.
pub(super) fn read(body: Value, type_name: &str) -> Result<Read, String> {
    let mut decoder = Decoder {
        strict: true,
        ..Decoder::default()
    };
    let object = match decoder.named(body, type_name, named(type_name)) {
        Ok(object) => object,
        Err(abort) => return Err(abort.to_string()),
    };
    match decoder.saved {
        Some(error) => Err(error.to_string()),
        None => Ok(Read {
            object,
            unknown: decoder.unknown,
        }),
    }
}

/// Turns `object` into the Go type `type_name` as the converter for untyped objects does: it trusts
/// that the schema was checked, and names no fields.
pub(super) fn convert(object: Value, type_name: &str) -> Result<Value, String> {
    let mut decoder = Decoder {
        converts: true,
        ..Decoder::default()
    };
    let converted = decoder.named(object, type_name, named(type_name));
    match (converted, decoder.saved) {
        (Err(wrong), _) | (Ok(_), Some(wrong)) => Err(wrong.to_string()),
        (Ok(object), None) => Ok(object),
    }
}

/// Why a value could not be read.
#[derive(Debug)]
enum Wrong {
    Type {
        value: String,
        kind: String,
        container: String,
        field: Vec<String>,
    },
    Plain(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::Type {
                value,
                kind,
                container,
                field,
            } if container.is_empty() && field.is_empty() => {
                write!(f, "json: cannot unmarshal {value} into Go value of type {kind}")
            }
            Self::Type {
                value,
                kind,
                container,
                field,
            } => {
                let field = field.join(".");
                write!(
                    f,
                    "json: cannot unmarshal {value} into Go struct field {container}.{field} of type {kind}"
                )
            }
        }
    }
}

#[derive(Debug, Default)]
struct Decoder {
    /// Name of the struct being read.
    container: &'static str,
    /// JSON names (and Go names of inlined structs) from the root to here.
    fields: Vec<&'static str>,
    /// The same with list indexes and map keys, for unknown fields.
    path: String,
    strict: bool,
    /// From an untyped object and not from text.
    converts: bool,
    unknown: Vec<String>,
    /// The first wrong type; reading goes on after it.
    saved: Option<Wrong>,
}

impl Decoder {
    fn value(&mut self, input: Value, kind: &GoType) -> Result<Value, Wrong> {
        match (kind, input) {
            (GoType::Pointer(_), Value::Null) => Ok(Value::Null),
            (GoType::Pointer(inner), input) => self.value(input, inner),
            (GoType::Named(key), input) => self.named(input, key, named(key)),
            (_, Value::Null) => Ok(zero(kind)),
            (GoType::Slice(inner), Value::Array(items)) => self.slice(items, inner),
            (GoType::Bytes, Value::Array(items)) => Ok(self.bytes(&items)),
            (GoType::Map(inner), Value::Object(members)) => self.map(members, inner),
            (_, input) => Ok(self.scalar(input, kind, &print(kind))),
        }
    }

    fn named(&mut self, input: Value, key: &str, of: &'static Named) -> Result<Value, Wrong> {
        match &of.shape {
            Shape::Struct(fields) => match input {
                Value::Object(members) => self.structure(members, of, fields),
                Value::Null => self.structure(Map::new(), of, fields),
                other => {
                    self.mismatch(&other, &of.go);
                    self.structure(Map::new(), of, fields)
                }
            },
            Shape::Alias(kind @ (GoType::Slice(_) | GoType::Map(_))) => match input {
                Value::Array(_) | Value::Object(_) | Value::Null => self.value(input, kind),
                other => {
                    self.mismatch(&other, &of.go);
                    Ok(Value::Null)
                }
            },
            Shape::Alias(kind) if input.is_null() => Ok(zero(kind)),
            Shape::Alias(kind) => Ok(self.scalar(input, kind, &of.go)),
            Shape::Custom => self.custom(input, key),
        }
    }

    fn structure(
        &mut self,
        mut members: Map<String, Value>,
        of: &'static Named,
        fields: &'static [Field],
    ) -> Result<Value, Wrong> {
        let mut left_out = Vec::new();
        for (key, value) in &mut members {
            let Some((inlined, field)) = find(fields, key) else {
                self.report_unknown(key);
                left_out.push(key.clone());
                continue;
            };
            let (depth, length) = (self.fields.len(), self.path.len());
            let container = std::mem::replace(&mut self.container, of.short());
            self.fields.extend(inlined);
            self.fields.push(&field.name);
            self.push_key(key);
            *value = self.value(value.take(), &field.kind)?;
            if is_omitted(field, value) {
                left_out.push(key.clone());
            }
            self.fields.truncate(depth);
            self.path.truncate(length);
            self.container = container;
        }
        for key in left_out {
            members.remove(&key);
        }
        show_unset(fields, &mut members);
        Ok(Value::Object(members))
    }

    fn slice(&mut self, items: Vec<Value>, inner: &GoType) -> Result<Value, Wrong> {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let length = self.path.len();
            // A String takes whatever is written to it.
            let _ = write!(self.path, "[{index}]");
            out.push(self.value(item, inner)?);
            self.path.truncate(length);
        }
        Ok(Value::Array(out))
    }

    /// Bytes may also be written as a list of numbers.
    fn bytes(&mut self, items: &[Value]) -> Value {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            match (item.as_u64().and_then(|n| u8::try_from(n).ok()), item) {
                (Some(byte), _) => out.push(byte),
                (None, Value::Null) => out.push(0),
                (None, Value::Number(number)) => self.save_type(format!("number {number}"), "uint8"),
                (None, other) => self.mismatch(other, "uint8"),
            }
        }
        STANDARD.encode(out).into()
    }

    fn map(&mut self, mut members: Map<String, Value>, inner: &GoType) -> Result<Value, Wrong> {
        for (key, value) in &mut members {
            let length = self.path.len();
            self.push_key(key);
            let mut read = self.value(value.take(), inner)?;
            // The store keeps no difference between no bytes and empty bytes.
            if *inner == GoType::Bytes && read.is_null() {
                read = json!("");
            }
            *value = read;
            self.path.truncate(length);
        }
        Ok(Value::Object(members))
    }

    fn scalar(&mut self, input: Value, kind: &GoType, go: &str) -> Value {
        match (kind, &input) {
            (GoType::Bool, Value::Bool(_))
            | (GoType::String, Value::String(_))
            | (GoType::Float64, Value::Number(_)) => input,
            (GoType::Bytes, Value::String(text)) => self.base64(text),
            (GoType::Int32 | GoType::Int64, Value::Number(number)) if self.converts => {
                match whole(number) {
                    // Go's conversion of integers drops the bits that do not fit.
                    Some(n) if *kind == GoType::Int32 => (n as i32).into(),
                    Some(n) => n.into(),
                    None => {
                        self.save(Wrong::Plain(format!("cannot convert float64 to {go}")));
                        zero(kind)
                    }
                }
            }
            (GoType::Int32 | GoType::Int64, Value::Number(number)) => {
                let fits = number
                    .as_i64()
                    .filter(|n| *kind == GoType::Int64 || i32::try_from(*n).is_ok());
                if fits.is_none() {
                    self.save_type(format!("number {number}"), go);
                }
                fits.unwrap_or(0).into()
            }
            _ => {
                self.mismatch(&input, go);
                zero(kind)
            }
        }
    }

    fn base64(&mut self, text: &str) -> Value {
        if let Err(why) = gobase64::check(text) {
            let prefix = if self.converts {
                "error decoding from json: "
            } else {
                ""
            };
            self.save(Wrong::Plain(format!("{prefix}{why}")));
            return Value::Null;
        }
        STANDARD
            .decode(text.replace(['\r', '\n'], ""))
            .map_or(Value::Null, |bytes| STANDARD.encode(bytes).into())
    }

    /// Types that read themselves. Their errors end the reading at once.
    fn custom(&mut self, input: Value, key: &str) -> Result<Value, Wrong> {
        match key.rsplit('.').next().unwrap_or(key) {
            "Time" => self.time(&input, gotime::seconds),
            "MicroTime" => self.time(&input, gotime::micros),
            "Quantity" => quantity(&input),
            "IntOrString" => self.int_or_string(input),
            name if name.starts_with("JSONSchemaPropsOr") => self.schema_or(input, name),
            _ => Ok(input),
        }
    }

    fn time(&mut self, input: &Value, read: fn(&str) -> Result<String, String>) -> Result<Value, Wrong> {
        match input {
            Value::Null => Ok(Value::Null),
            Value::String(text) => read(text).map(Value::from).map_err(Wrong::Plain),
            other => Err(self.type_error(describe(other), "string")),
        }
    }

    fn int_or_string(&mut self, input: Value) -> Result<Value, Wrong> {
        match &input {
            Value::Null => Ok(json!(0)),
            Value::String(_) => Ok(input),
            Value::Number(number) => match number.as_i64().filter(|n| i32::try_from(*n).is_ok()) {
                Some(n) => Ok(n.into()),
                None => Err(self.type_error(format!("number {number}"), "int32")),
            },
            other => Err(self.type_error(describe(other), "int32")),
        }
    }

    /// A schema, or something simpler; read by a decoder of its own that ignores unknown fields.
    fn schema_or(&mut self, input: Value, name: &str) -> Result<Value, Wrong> {
        let schema =
            GoType::Named("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps".to_owned());
        let kind = match (&input, name) {
            (Value::Object(_), _) => schema,
            (Value::Array(_), "JSONSchemaPropsOrArray") => GoType::Slice(Box::new(schema)),
            (Value::Array(_), "JSONSchemaPropsOrStringArray") => GoType::Slice(Box::new(GoType::String)),
            (Value::Bool(_), "JSONSchemaPropsOrBool") => return Ok(input),
            (_, "JSONSchemaPropsOrBool") => {
                return Err(Wrong::Plain("boolean or JSON schema expected".into()));
            }
            _ => return Ok(Value::Null),
        };
        let mut inner = Decoder::default();
        let read = inner.value(input, &kind).map_err(|wrong| self.nest(wrong))?;
        match inner.saved {
            Some(wrong) => Err(self.nest(wrong)),
            None => Ok(read),
        }
    }

    fn nest(&self, wrong: Wrong) -> Wrong {
        match wrong {
            Wrong::Type { value, kind, field, .. } => {
                let field = self.field_names().into_iter().chain(field).collect();
                Wrong::Type {
                    value,
                    kind,
                    container: self.container.to_owned(),
                    field,
                }
            }
            plain => plain,
        }
    }

    fn report_unknown(&mut self, key: &str) {
        if !self.strict || self.unknown.len() >= 100 {
            return;
        }
        let path = if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        };
        let message = format!("unknown field {}", aplomb_apimachinery::field::go_quote(&path));
        if !self.unknown.contains(&message) {
            self.unknown.push(message);
        }
    }

    fn push_key(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    fn mismatch(&mut self, input: &Value, go: &str) {
        self.save_type(describe(input), go);
    }

    fn save_type(&mut self, value: String, go: &str) {
        let wrong = self.type_error(value, go);
        self.save(wrong);
    }

    fn type_error(&self, value: String, go: &str) -> Wrong {
        if self.converts {
            return Wrong::Type {
                value,
                kind: go.to_owned(),
                container: String::new(),
                field: Vec::new(),
            };
        }
        Wrong::Type {
            value,
            kind: go.to_owned(),
            container: self.container.to_owned(),
            field: self.field_names(),
        }
    }

    fn field_names(&self) -> Vec<String> {
        self.fields.iter().map(|name| (*name).to_owned()).collect()
    }

    fn save(&mut self, wrong: Wrong) {
        self.saved.get_or_insert(wrong);
    }
}

/// The field called `key` and the Go names of the inlined structs it is in.
fn find(fields: &'static [Field], key: &str) -> Option<(Vec<&'static str>, &'static Field)> {
    if let Some(field) = fields.iter().find(|field| field.name == key) {
        return Some((Vec::new(), field));
    }
    inlined(fields).find_map(|(of, inner)| {
        let (mut names, field) = find(inner, key)?;
        names.insert(0, of.short());
        Some((names, field))
    })
}

/// A number as Go makes an integer of it; a whole float that is too large becomes the least one.
fn whole(number: &serde_json::Number) -> Option<i64> {
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    let float = || number.as_f64().filter(|float| float.fract() == 0.0);
    let cut = |float: f64| {
        if float.abs() < TOO_LARGE {
            float as i64
        } else {
            i64::MIN
        }
    };
    number.as_i64().or_else(|| float().map(cut))
}

fn quantity(input: &Value) -> Result<Value, Wrong> {
    let text = match input {
        Value::Null => return Ok(json!("0")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let parsed = Quantity::parse(text.trim()).map_err(|why| Wrong::Plain(why.to_owned()))?;
    Ok(parsed.to_string().into())
}

/// What Go's decoder calls a JSON value.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
    .to_owned()
}
