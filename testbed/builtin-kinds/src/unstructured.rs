//! Whether an untyped object fits a Go type, as the server's converter finds out.
//!
//! It says what a strategic merge patch may have broken; turning the object into one of the kind is
//! `decode`'s business.

use aplomb_go_compat::{base64 as gobase64, time as gotime};
use serde_json::{Map, Value};

use super::gotype::{Field, GoType, Named, Shape, named, print};
use super::patch_meta::kind_of;
use super::quantity::Quantity;

/// The fields the Go type `type_name` does not have, sorted; the error is the first misfit.
pub(super) fn check(object: &Value, type_name: &str) -> Result<Vec<String>, String> {
    let mut checker = Checker::default();
    checker.value(object, &GoType::Named(type_name.to_owned()))?;
    checker.unknown.sort();
    Ok(checker.unknown)
}

#[derive(Debug, Default)]
struct Checker {
    path: String,
    unknown: Vec<String>,
}

impl Checker {
    fn value(&mut self, value: &Value, kind: &GoType) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        match kind {
            GoType::Pointer(inner) => self.value(value, inner),
            GoType::Named(key) => self.named(value, key, named(key)),
            GoType::Map(inner) => self.map(value, inner),
            GoType::Slice(inner) => self.slice(value, inner),
            GoType::Bytes => bytes(value),
            _ => scalar(value, kind, &print(kind)),
        }
    }

    fn named(&mut self, value: &Value, key: &str, of: &'static Named) -> Result<(), String> {
        match &of.shape {
            Shape::Struct(fields) => {
                let Value::Object(members) = value else {
                    let kind = go_kind(value);
                    return Err(format!("cannot restore struct from: {kind}"));
                };
                let mut known = Vec::new();
                self.structure(members, fields, &mut known)?;
                for member in members.keys().filter(|member| !known.contains(member)) {
                    let path = self.joined(member);
                    self.unknown.push(format!("unknown field \"{path}\""));
                }
                Ok(())
            }
            Shape::Alias(kind @ (GoType::Slice(_) | GoType::Map(_) | GoType::Bytes)) => self.value(value, kind),
            Shape::Alias(kind) => scalar(value, kind, &of.go),
            Shape::Custom => custom(value, key),
        }
    }

    fn structure<'v>(
        &mut self,
        members: &'v Map<String, Value>,
        fields: &'static [Field],
        known: &mut Vec<&'v String>,
    ) -> Result<(), String> {
        for field in fields {
            if field.name.is_empty() {
                self.inlined(members, &field.kind, known)?;
                continue;
            }
            let Some((name, value)) = members.get_key_value(&field.name) else {
                continue;
            };
            known.push(name);
            let length = self.path.len();
            self.path = self.joined(name);
            self.value(value, &field.kind)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn inlined<'v>(
        &mut self,
        members: &'v Map<String, Value>,
        kind: &GoType,
        known: &mut Vec<&'v String>,
    ) -> Result<(), String> {
        match kind {
            GoType::Named(key) => match &named(key).shape {
                Shape::Struct(fields) => self.structure(members, fields, known),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn map(&mut self, value: &Value, inner: &GoType) -> Result<(), String> {
        let Value::Object(members) = value else {
            return Err(format!("cannot restore map from {}", go_kind(value)));
        };
        members.values().try_for_each(|member| self.value(member, inner))
    }

    fn slice(&mut self, value: &Value, inner: &GoType) -> Result<(), String> {
        let Value::Array(items) = value else {
            return Err(format!("cannot restore slice from {}", go_kind(value)));
        };
        for (index, item) in items.iter().enumerate() {
            let length = self.path.len();
            self.path.push_str(&format!("[{index}]"));
            self.value(item, inner)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn joined(&self, member: &str) -> String {
        if self.path.is_empty() {
            member.to_owned()
        } else {
            format!("{}.{member}", self.path)
        }
    }
}

fn bytes(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) if text.is_empty() => Ok(()),
        Value::String(text) => gobase64::check(text).map_err(|why| format!("error decoding from json: {why}")),
        Value::Array(_) => Ok(()),
        other => Err(format!("cannot restore slice from {}", go_kind(other))),
    }
}

fn scalar(value: &Value, kind: &GoType, go: &str) -> Result<(), String> {
    let whole = || value.as_f64().is_some_and(|float| float.fract() == 0.0);
    let fits = match (kind, value) {
        (GoType::Bool, Value::Bool(_)) | (GoType::String, Value::String(_)) => true,
        (GoType::Float64, Value::Number(_)) => true,
        (GoType::Int32 | GoType::Int64, Value::Number(number)) => number.is_i64() || whole(),
        _ => false,
    };
    // Go converts numbers to strings of one character and back; only those it refuses here.
    let convertible = match value {
        Value::Number(_) => kind_of(kind) != "bool",
        Value::String(_) => kind_of(kind) == "string",
        Value::Bool(_) => kind_of(kind) == "bool",
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let is_float = matches!(value, Value::Number(number) if !number.is_i64());
    if convertible && !(is_float && kind_of(kind) == "string") {
        return Err(format!("cannot convert {} to {go}", go_kind(value)));
    }
    Err(format!("unrecognized type: {}", kind_of(kind)))
}

/// Types that read themselves, from JSON.
fn custom(value: &Value, key: &str) -> Result<(), String> {
    let wrong = |found: String, wanted: &str| format!("json: cannot unmarshal {found} into Go value of type {wanted}");
    let name = key.rsplit('.').next().unwrap_or(key);
    match (name, value) {
        ("Time", Value::String(text)) => gotime::seconds(text).map(drop),
        ("MicroTime", Value::String(text)) => gotime::micros(text).map(drop),
        ("Time" | "MicroTime", other) => Err(wrong(super::decode::describe(other), "string")),
        ("Quantity", Value::String(text)) => Quantity::parse(text.trim()).map(drop).map_err(ToString::to_string),
        ("Quantity", other) => Quantity::parse(&other.to_string())
            .map(drop)
            .map_err(ToString::to_string),
        ("IntOrString", Value::String(_)) => Ok(()),
        ("IntOrString", Value::Number(number)) => {
            let fits = number.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
            match fits {
                true => Ok(()),
                false => Err(wrong(format!("number {number}"), "int32")),
            }
        }
        ("IntOrString", other) => Err(wrong(super::decode::describe(other), "int32")),
        _ => Ok(()),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
