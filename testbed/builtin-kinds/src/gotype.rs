//! The Go types behind the built-in kinds, as `testbed/controlplane/build/kubernetes/gotypes` prints them.
//!
//! They say what OpenAPI does not: the order of fields, which zero values an answer shows, and the
//! type names that decoding errors mention. Reading JSON by them is `decode`'s business.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;
use serde_json::Value;

/// A Go type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GoType {
    Bool,
    String,
    Int32,
    Int64,
    Float64,
    Bytes,
    Pointer(Box<GoType>),
    Slice(Box<GoType>),
    Map(Box<GoType>),
    /// A named type, by its key in [`types`].
    Named(String),
}

/// A field of a struct.
#[derive(Debug)]
pub(super) struct Field {
    /// JSON name; empty for an inlined struct.
    pub(super) name: String,
    pub(super) kind: GoType,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    /// What is shown where it is not set, once somebody has asked; see `encode::unset`.
    pub(super) unset: OnceLock<Option<Value>>,
}

/// What a name stands for.
#[derive(Debug)]
pub(super) enum Shape {
    Struct(Vec<Field>),
    /// A named string, number, list or map.
    Alias(GoType),
    /// A type with its own `UnmarshalJSON`.
    Custom,
}

/// A named type.
#[derive(Debug)]
pub(super) struct Named {
    /// As error messages print it, `v1.ObjectMeta`.
    pub(super) go: String,
    pub(super) shape: Shape,
}

impl Named {
    /// The name without its package, as errors name the struct a field is in.
    pub(super) fn short(&self) -> &str {
        self.go.rsplit('.').next().unwrap_or(&self.go)
    }
}

#[derive(Deserialize)]
struct RawField {
    #[serde(default)]
    n: String,
    t: String,
    #[serde(default)]
    o: bool,
    #[serde(default)]
    z: bool,
}

#[derive(Deserialize)]
struct RawNamed {
    go: String,
    #[serde(default)]
    fields: Vec<RawField>,
    of: Option<String>,
    #[serde(default)]
    custom: bool,
}

static TYPES: LazyLock<BTreeMap<String, Named>> = LazyLock::new(|| {
    let raw: BTreeMap<String, RawNamed> =
        serde_json::from_str(include_str!("data/gotypes.json")).expect("vendored Go types are valid");
    raw.into_iter().map(|(name, raw)| (name, read(raw))).collect()
});

fn read(raw: RawNamed) -> Named {
    let shape = match raw.of {
        _ if raw.custom => Shape::Custom,
        Some(of) => Shape::Alias(parse(&of)),
        None => Shape::Struct(raw.fields.into_iter().map(field).collect()),
    };
    Named { go: raw.go, shape }
}

fn field(raw: RawField) -> Field {
    Field {
        name: raw.n,
        kind: parse(&raw.t),
        omit_empty: raw.o,
        omit_zero: raw.z,
        unset: OnceLock::new(),
    }
}

fn parse(text: &str) -> GoType {
    if let Some(inner) = text.strip_prefix('*') {
        return GoType::Pointer(Box::new(parse(inner)));
    }
    if let Some(inner) = text.strip_prefix("map[") {
        // Keys are strings, or named strings: JSON does not tell them apart.
        let element = inner.split_once(']').map_or(inner, |(_, element)| element);
        return GoType::Map(Box::new(parse(element)));
    }
    match text {
        "bool" => GoType::Bool,
        "string" => GoType::String,
        "int32" => GoType::Int32,
        "int64" | "int" => GoType::Int64,
        "float64" => GoType::Float64,
        "[]byte" => GoType::Bytes,
        _ => match text.strip_prefix("[]") {
            Some(inner) => GoType::Slice(Box::new(parse(inner))),
            None => GoType::Named(text.to_owned()),
        },
    }
}

/// The type called `key`, a package path and a name.
pub(super) fn named(key: &str) -> &'static Named {
    TYPES.get(key).expect("every named Go type is in the vendored table")
}

/// The kinds of a package, each with the key of its type: the structs that say what they are.
pub(super) fn kinds_of(package: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    TYPES.iter().filter_map(move |(key, named)| {
        let kind = key.strip_prefix(package)?.strip_prefix('.')?;
        says_what_it_is(&named.shape).then_some((kind, key.as_str()))
    })
}

fn says_what_it_is(shape: &Shape) -> bool {
    let Shape::Struct(fields) = shape else {
        return false;
    };
    fields.iter().any(|field| {
        let meta = matches!(&field.kind, GoType::Named(key) if key.ends_with("/meta/v1.TypeMeta"));
        meta && field.name.is_empty()
    })
}

/// The type as Go's `reflect.Type.String` prints it.
pub(super) fn print(kind: &GoType) -> Cow<'static, str> {
    match kind {
        GoType::Bool => "bool".into(),
        GoType::String => "string".into(),
        GoType::Int32 => "int32".into(),
        GoType::Int64 => "int64".into(),
        GoType::Float64 => "float64".into(),
        GoType::Bytes => "[]uint8".into(),
        GoType::Pointer(inner) => format!("*{}", print(inner)).into(),
        GoType::Slice(inner) => format!("[]{}", print(inner)).into(),
        GoType::Map(inner) => format!("map[string]{}", print(inner)).into(),
        GoType::Named(key) => named(key).go.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_as_go_does() {
        let data = parse("map[string]k8s.io/apimachinery/pkg/api/resource.Quantity");
        assert_eq!(print(&data), "map[string]resource.Quantity");
    }

    #[test]
    fn every_mentioned_type_is_in_the_table() {
        fn check(kind: &GoType) {
            match kind {
                GoType::Pointer(inner) | GoType::Slice(inner) | GoType::Map(inner) => check(inner),
                GoType::Named(key) => assert!(TYPES.contains_key(key), "{key}"),
                _ => {}
            }
        }
        for named in TYPES.values() {
            match &named.shape {
                Shape::Struct(fields) => fields.iter().for_each(|field| check(&field.kind)),
                Shape::Alias(of) => check(of),
                Shape::Custom => {}
            }
        }
    }
}
