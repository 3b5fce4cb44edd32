//! Operators and functions of the language itself; the rest is in modules by subject.

use std::cmp::Ordering;
use std::sync::Arc;

use super::eval::{NO_OVERLOAD, Outcome};
use super::value::{ListKind, Val, same_key};
use super::{conversions, library, lists, strings, times};

/// Calls `function`; the receiver, if there is one, is the first value.
pub(super) fn call(function: &str, values: &[Val], receiver: bool) -> Outcome {
    if let (true, Some((Val::Host(host), args))) = (receiver, values.split_first()) {
        return host.call(function, args).unwrap_or_else(|| Err(NO_OVERLOAD.to_owned()));
    }
    match (function, values) {
        ("_==_", [a, b]) => Ok(Val::Bool(a.equals(b))),
        ("_!=_", [a, b]) => Ok(Val::Bool(!a.equals(b))),
        ("_<_", [a, b]) => compare(a, b, Ordering::is_lt),
        ("_<=_", [a, b]) => compare(a, b, Ordering::is_le),
        ("_>_", [a, b]) => compare(a, b, Ordering::is_gt),
        ("_>=_", [a, b]) => compare(a, b, Ordering::is_ge),
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("-_", [Val::Int(value)]) => value.checked_neg().map(Val::Int).ok_or_else(overflow),
        ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(function, a, b),
        ("_[_]" | "_[?_]", [operand, index]) => index_into(operand, index, function == "_[?_]"),
        ("@in", [item, Val::List(items, _)]) => Ok(Val::Bool(items.iter().any(|other| item.equals(other)))),
        ("@in", [key, Val::Map(entries)]) => Ok(Val::Bool(key.key().is_some_and(|key| entries.contains_key(&key)))),
        ("size", [value]) => size(value),
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(value)]) => dereference(value.as_deref()),
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Ok(Val::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => Ok(Val::some(value.clone())),
        (_, [Val::Timestamp(time)]) if receiver => times::timestamp_part(function, *time, None),
        (_, [Val::Timestamp(time), Val::String(zone)]) if receiver => {
            times::timestamp_part(function, *time, Some(zone))
        }
        (_, [Val::Duration(value)]) if receiver => times::duration_part(function, *value),
        _ => library(function, values, receiver),
    }
}

fn library(function: &str, values: &[Val], receiver: bool) -> Outcome {
    let found = conversions::call(function, values)
        .or_else(|| lists::call(function, values))
        .or_else(|| strings::call(function, values));
    found.unwrap_or_else(|| library::call(function, values, receiver))
}

pub(super) fn overflow() -> String {
    "integer overflow".to_owned()
}

fn compare(a: &Val, b: &Val, holds: fn(Ordering) -> bool) -> Outcome {
    let is_nan = |value: &Val| matches!(value, Val::Double(double) if double.is_nan());
    match a.compare(b) {
        Some(order) => Ok(Val::Bool(holds(order))),
        None if is_nan(a) || is_nan(b) => Ok(Val::Bool(false)),
        None => Err(NO_OVERLOAD.to_owned()),
    }
}

fn arithmetic(function: &str, a: &Val, b: &Val) -> Outcome {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => integers(function, *a, *b),
        (Val::Uint(a), Val::Uint(b)) => unsigned(function, *a, *b),
        (Val::Double(a), Val::Double(b)) => match function {
            "_+_" => Ok(Val::Double(a + b)),
            "_-_" => Ok(Val::Double(a - b)),
            "_*_" => Ok(Val::Double(a * b)),
            "_/_" => Ok(Val::Double(a / b)),
            _ => Err(NO_OVERLOAD.to_owned()),
        },
        (Val::Timestamp(_) | Val::Duration(_), _) => moments(function, a, b),
        _ if function == "_+_" => concatenate(a, b),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

fn integers(function: &str, a: i64, b: i64) -> Outcome {
    let result = match (function, b) {
        ("_/_", 0) => return Err("division by zero".to_owned()),
        ("_%_", 0) => return Err("modulus by zero".to_owned()),
        ("_+_", _) => a.checked_add(b),
        ("_-_", _) => a.checked_sub(b),
        ("_*_", _) => a.checked_mul(b),
        ("_/_", _) => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result.map(Val::Int).ok_or_else(overflow)
}

fn unsigned(function: &str, a: u64, b: u64) -> Outcome {
    let result = match (function, b) {
        ("_/_", 0) => return Err("division by zero".to_owned()),
        ("_%_", 0) => return Err("modulus by zero".to_owned()),
        ("_+_", _) => a.checked_add(b),
        ("_-_", _) => a.checked_sub(b),
        ("_*_", _) => a.checked_mul(b),
        ("_/_", _) => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result.map(Val::Uint).ok_or_else(conversions::unsigned_overflow)
}

fn moments(function: &str, a: &Val, b: &Val) -> Outcome {
    let out_of_range = || "timestamp overflow".to_owned();
    let shift = |time: &jiff::Timestamp, by: i64| {
        let moved = time.checked_add(jiff::SignedDuration::from_nanos(by));
        moved.map(Val::Timestamp).map_err(|_| out_of_range())
    };
    match (function, a, b) {
        ("_+_", Val::Timestamp(time), Val::Duration(by)) | ("_+_", Val::Duration(by), Val::Timestamp(time)) => {
            shift(time, *by)
        }
        ("_-_", Val::Timestamp(time), Val::Duration(by)) => shift(time, -by),
        ("_-_", Val::Timestamp(a), Val::Timestamp(b)) => {
            let between = i64::try_from(a.duration_since(*b).as_nanos());
            between.map(Val::Duration).map_err(|_| overflow())
        }
        ("_+_", Val::Duration(a), Val::Duration(b)) => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
        ("_-_", Val::Duration(a), Val::Duration(b)) => a.checked_sub(*b).map(Val::Duration).ok_or_else(overflow),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

fn concatenate(a: &Val, b: &Val) -> Outcome {
    match (a, b) {
        (Val::String(a), Val::String(b)) => Ok(Val::text(&format!("{a}{b}"))),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(Val::Bytes([a.as_slice(), b.as_slice()].concat())),
        (Val::List(a, kind), Val::List(b, _)) => Ok(Val::List(Arc::new(join_lists(a, b, kind)), kind.clone())),
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

/// Sets and maps keep one item for each key; a later one takes the place of an earlier.
fn join_lists(a: &[Val], b: &[Val], kind: &ListKind) -> Vec<Val> {
    let mut out = a.to_vec();
    for item in b {
        let known = out
            .iter_mut()
            .find(|other| !matches!(kind, ListKind::Atomic) && same_key(other, item, kind));
        match known {
            Some(known) => *known = item.clone(),
            None => out.push(item.clone()),
        }
    }
    out
}

fn index_into(operand: &Val, index: &Val, optional: bool) -> Outcome {
    let wrap = |found: Option<Val>, missing: String| match (found, optional) {
        (found, true) => Ok(Val::Optional(found.map(Box::new))),
        (Some(found), false) => Ok(found),
        (None, false) => Err(missing),
    };
    match (operand, index) {
        (Val::Optional(Some(inner)), _) => index_into(inner, index, true),
        (Val::Optional(None), _) => Ok(Val::Optional(None)),
        (Val::List(items, _), Val::Int(at)) => {
            let found = usize::try_from(*at).ok().and_then(|at| items.get(at)).cloned();
            wrap(found, format!("index out of bounds: {at}"))
        }
        (Val::Map(entries), key) => {
            let key = key.key().ok_or(NO_OVERLOAD)?;
            let shown = conversions::print(&key.val());
            wrap(entries.get(&key).cloned(), format!("no such key: {shown}"))
        }
        _ => Err(NO_OVERLOAD.to_owned()),
    }
}

fn dereference(value: Option<&Val>) -> Outcome {
    value.cloned().ok_or_else(|| "optional.none() dereference".to_owned())
}

fn size(value: &Val) -> Outcome {
    let length = match value {
        Val::String(text) => text.chars().count(),
        Val::Bytes(bytes) => bytes.len(),
        Val::List(items, _) => items.len(),
        Val::Map(entries) => entries.len(),
        _ => return Err(NO_OVERLOAD.to_owned()),
    };
    Ok(Val::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}
