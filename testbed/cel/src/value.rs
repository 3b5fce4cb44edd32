//! Values of expressions, with CEL's equality and order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube_cel::cel;

use super::eval::Outcome;

/// A value. Maps keep their entries in order of keys, so that runs are alike.
#[derive(Clone, Debug)]
pub enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Vec<u8>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    List(Arc<Vec<Val>>, ListKind),
    Map(Arc<BTreeMap<Key, Val>>),
    Optional(Option<Box<Val>>),
    Type(String),
    /// A value of one of the Kubernetes libraries.
    Opaque(Opaque),
    /// Data that is not what its schema says; reading it is an error.
    Invalid(Arc<str>),
    /// Something whose fields and methods are worked out when they are asked for.
    Host(Arc<dyn Host>),
}

/// A value that lives outside the language: the variables of a policy, an authorizer.
pub trait Host: std::fmt::Debug + Send + Sync {
    /// The name `type()` gives.
    fn type_name(&self) -> &'static str;

    /// A field; `None` when there is none of that name.
    fn field(&self, _name: &str) -> Option<Outcome> {
        None
    }

    /// What a method answers; `None` when there is none that takes these values.
    fn call(&self, _method: &str, _args: &[Val]) -> Option<Outcome> {
        None
    }
}

/// How items of a list correspond, by `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default)]
pub enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Arc<[String]>),
}

/// Keys of maps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

/// A library's value and the name of its type.
#[derive(Clone, Debug)]
pub struct Opaque {
    pub(super) type_name: &'static str,
    pub(super) value: cel::Value,
}

impl Val {
    pub fn text(text: &str) -> Self {
        Self::String(text.into())
    }

    pub(super) fn list(items: Vec<Val>) -> Self {
        Self::List(Arc::new(items), ListKind::Atomic)
    }

    pub(super) fn some(value: Val) -> Self {
        Self::Optional(Some(Box::new(value)))
    }

    pub(super) fn negated(&self) -> Option<Self> {
        match self {
            Self::Int(value) => Some(Self::Int(value.wrapping_neg())),
            Self::Double(value) => Some(Self::Double(-value)),
            _ => None,
        }
    }

    pub(super) fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(value) => Some(Key::Bool(*value)),
            Self::Int(value) => Some(Key::Int(*value)),
            Self::Uint(value) => Some(i64::try_from(*value).map_or(Key::Uint(*value), Key::Int)),
            Self::String(value) => Some(Key::String(value.clone())),
            Self::Double(value) => whole(*value).map(Key::Int),
            _ => None,
        }
    }

    /// The name `type()` gives.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(..) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(opaque) => opaque.type_name,
            Self::Invalid(_) => "error",
            Self::Host(host) => host.type_name(),
        }
    }

    pub(super) fn equals(&self, other: &Val) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::List(a, kind), Self::List(b, _)) => lists_equal(a, b, kind),
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| v.equals(w)))
            }
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Self::Opaque(a), Self::Opaque(b)) => a.type_name == b.type_name && a.value == b.value,
            (Self::Host(a), Self::Host(b)) => Arc::ptr_eq(a, b),
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// The order of values that have one; numbers of different kinds compare by value.
    pub(super) fn compare(&self, other: &Val) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            _ => self.number()?.partial_cmp(&other.number()?),
        }
    }

    #[allow(clippy::cast_precision_loss)] // comparison with a double is a comparison of doubles
    fn number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Uint(value) => Some(*value as f64),
            Self::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether this is what an absent field would be.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Duration(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(value) => value.is_empty(),
            Self::Bytes(value) => value.is_empty(),
            Self::List(items, _) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            Self::Optional(value) => value.is_none(),
            Self::Timestamp(_) | Self::Type(_) | Self::Opaque(_) | Self::Invalid(_) | Self::Host(_) => false,
        }
    }
}

impl Key {
    pub(super) fn val(&self) -> Val {
        match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Uint(value) => Val::Uint(*value),
            Self::String(value) => Val::String(value.clone()),
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // guarded: the value has no fraction and fits
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0).then_some(value as i64)
}

fn lists_equal(a: &[Val], b: &[Val], kind: &ListKind) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match kind {
        ListKind::Atomic => a.iter().zip(b).all(|(x, y)| x.equals(y)),
        ListKind::Set => a.iter().all(|x| b.iter().any(|y| x.equals(y))),
        ListKind::Map(_) => a.iter().all(|x| b.iter().any(|y| same_key(x, y, kind) && x.equals(y))),
    }
}

/// Whether two items of a list are the same one.
pub(super) fn same_key(a: &Val, b: &Val, kind: &ListKind) -> bool {
    let (ListKind::Map(keys), Val::Map(a), Val::Map(b)) = (kind, a, b) else {
        return a.equals(b);
    };
    keys.iter().all(|name| {
        let key = Key::String(name.as_str().into());
        matches!((a.get(&key), b.get(&key)), (Some(x), Some(y)) if x.equals(y))
    })
}

/// The value of `json` as it stands.
#[must_use]
pub fn value_of(json: &serde_json::Value) -> Val {
    use serde_json::Value;
    match json {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => Val::Int(value),
            None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Val::text(text),
        Value::Array(items) => Val::List(Arc::new(items.iter().map(value_of).collect()), ListKind::Atomic),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| (Key::String(key.as_str().into()), value_of(value));
            Val::Map(Arc::new(map.iter().map(entry).collect()))
        }
    }
}
