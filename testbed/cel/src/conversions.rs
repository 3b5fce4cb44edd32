//! `int()`, `string()` and the other conversions.

use aplomb_go_compat as go;

use super::eval::Outcome;
use super::functions::overflow;
use super::times::{parse_duration, parse_timestamp, print_duration, print_timestamp};
use super::value::Val;

/// Converts, if `function` is a conversion.
#[allow(clippy::cast_precision_loss)] // to a double means to a double
pub(super) fn call(function: &str, values: &[Val]) -> Option<Outcome> {
    let [value] = values else { return None };
    let converted = match (function, value) {
        ("dyn", value) => value.clone(),
        ("type", value) => Val::Type(value.type_name().to_owned()),
        ("int", Val::Uint(value)) => {
            return Some(i64::try_from(*value).map(Val::Int).map_err(|_| overflow()));
        }
        ("int", Val::Double(value)) => return Some(truncate(*value)),
        ("int", Val::Timestamp(time)) => Val::Int(time.as_second()),
        ("int", Val::Duration(value)) => Val::Int(*value),
        ("uint", Val::Int(_)) => return Some(unsigned(value)),
        ("uint", Val::Double(value)) => {
            return Some(truncate(*value).and_then(|value| unsigned(&value)));
        }
        ("double", Val::Int(value)) => Val::Double(*value as f64),
        ("double", Val::Uint(value)) => Val::Double(*value as f64),
        ("bytes", Val::String(text)) => Val::Bytes(text.as_bytes().to_vec()),
        ("duration", Val::Int(value)) => Val::Duration(*value),
        ("timestamp", Val::Int(value)) => return Some(moment(*value)),
        ("string", Val::Bytes(bytes)) => Val::text(&String::from_utf8_lossy(bytes)),
        ("string", Val::Opaque(_)) => return None,
        ("string", value) => Val::text(&print(value)),
        (_, Val::String(text)) => return from_text(function, text),
        ("int", Val::Int(_))
        | ("uint", Val::Uint(_))
        | ("double", Val::Double(_))
        | ("bool", Val::Bool(_))
        | ("bytes", Val::Bytes(_))
        | ("duration", Val::Duration(_))
        | ("timestamp", Val::Timestamp(_)) => value.clone(),
        _ => return None,
    };
    Some(Ok(converted))
}

/// Converts a text that is written out.
pub(super) fn from_text(function: &str, text: &str) -> Option<Outcome> {
    let parsed = match function {
        "int" => text.parse().ok().map(Val::Int),
        "uint" => text.parse().ok().map(Val::Uint),
        "double" => text.parse().ok().map(Val::Double),
        "bool" => match text {
            "1" | "t" | "true" | "TRUE" | "True" => Some(Val::Bool(true)),
            "0" | "f" | "false" | "FALSE" | "False" => Some(Val::Bool(false)),
            _ => None,
        },
        "duration" => parse_duration(text).map(Val::Duration),
        "timestamp" => parse_timestamp(text).map(Val::Timestamp),
        _ => return None,
    };
    Some(parsed.ok_or_else(|| format!("type conversion error from 'string' to '{function}'")))
}

pub(super) fn unsigned_overflow() -> String {
    "unsigned integer overflow".to_owned()
}

#[allow(clippy::cast_possible_truncation)] // the range is checked first
fn truncate(value: f64) -> Outcome {
    if value.is_finite() && value.abs() < 9_223_372_036_854_775_807.0 {
        Ok(Val::Int(value as i64))
    } else {
        Err(overflow())
    }
}

fn moment(seconds: i64) -> Outcome {
    jiff::Timestamp::from_second(seconds)
        .map(Val::Timestamp)
        .map_err(|_| overflow())
}

fn unsigned(value: &Val) -> Outcome {
    match value {
        Val::Int(value) => u64::try_from(*value).map(Val::Uint).map_err(|_| unsigned_overflow()),
        _ => Err(unsigned_overflow()),
    }
}

/// A value as text.
pub(super) fn print(value: &Val) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => go::float(*value),
        Val::String(text) => text.to_string(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Timestamp(time) => print_timestamp(*time),
        Val::Duration(value) => print_duration(*value),
        Val::Type(name) => name.clone(),
        Val::List(..) | Val::Map(_) | Val::Optional(_) | Val::Opaque(_) | Val::Invalid(_) | Val::Host(_) => {
            value.type_name().to_owned()
        }
    }
}
