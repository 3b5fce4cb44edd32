//! What strategic merge patches know about the built-in kinds: the Go types, with the patch
//! strategies and merge keys that their OpenAPI schemas publish.
//!
//! Nothing is merged here.

use aplomb_apimachinery::resource::{PatchMember, PatchMeta};
use serde_json::Value;

use super::encode::inlined;
use super::gotype::{Field, GoType, Shape, named};

/// A Go type, and the schema of the place it is in.
#[derive(Debug)]
struct Place<'a> {
    kind: GoType,
    schema: &'a Value,
}

/// The place of a whole object.
pub(super) fn of<'a>(type_name: &str, schema: &'a Value) -> Box<dyn PatchMeta + 'a> {
    Box::new(Place {
        kind: GoType::Named(type_name.to_owned()),
        schema,
    })
}

impl PatchMeta for Place<'_> {
    fn kind(&self) -> &'static str {
        kind_of(&self.kind)
    }

    fn member(&self, key: &str) -> Result<PatchMember<'_>, String> {
        let GoType::Named(name) = pointed_at(&self.kind) else {
            return Err(no_struct(kind_of(pointed_at(&self.kind))));
        };
        let of = named(name);
        let fields: &'static [Field] = match &of.shape {
            Shape::Struct(fields) => fields,
            Shape::Custom => &[],
            Shape::Alias(kind) => return Err(no_struct(kind_of(kind))),
        };
        let field = field_called(fields, key).ok_or_else(|| {
            let (name, key) = (of.short(), aplomb_apimachinery::field::go_quote(key));
            format!("unable to find api field in struct {name} for the json field {key}")
        })?;
        let schema = &self.schema["properties"][&field.name];
        let said = |extension: &str| schema[extension].as_str().unwrap_or_default().to_owned();
        Ok(PatchMember {
            strategy: said("x-kubernetes-patch-strategy"),
            merge_key: said("x-kubernetes-patch-merge-key"),
            of: Box::new(Place {
                kind: field.kind.clone(),
                schema,
            }),
        })
    }

    fn items(&self) -> Option<Box<dyn PatchMeta + '_>> {
        let kind = match plain(&self.kind) {
            GoType::Slice(inner) => *inner,
            // One byte of many; nothing is ever looked up in it.
            GoType::Bytes => GoType::Int32,
            // A pointer that is not to a list is taken for one item.
            GoType::Pointer(inner) => match plain(&inner) {
                GoType::Slice(inner) => *inner,
                _ => *inner,
            },
            _ => return None,
        };
        Some(Box::new(Place {
            kind,
            schema: &self.schema["items"],
        }))
    }
}

fn no_struct(kind: &str) -> String {
    format!("merging an object in json but data type is not struct, instead is: {kind}")
}

fn pointed_at(kind: &GoType) -> &GoType {
    match kind {
        GoType::Pointer(inner) => inner,
        other => other,
    }
}

/// The type behind a name that is only a name.
fn plain(kind: &GoType) -> GoType {
    match kind {
        GoType::Named(name) => match &named(name).shape {
            Shape::Alias(of) => of.clone(),
            _ => kind.clone(),
        },
        other => other.clone(),
    }
}

pub(super) fn kind_of(kind: &GoType) -> &'static str {
    match kind {
        GoType::Bool => "bool",
        GoType::String => "string",
        GoType::Int32 => "int32",
        GoType::Int64 => "int64",
        GoType::Float64 => "float64",
        GoType::Bytes | GoType::Slice(_) => "slice",
        GoType::Pointer(_) => "ptr",
        GoType::Map(_) => "map",
        GoType::Named(name) => match &named(name).shape {
            Shape::Alias(of) => kind_of(of),
            Shape::Struct(_) | Shape::Custom => "struct",
        },
    }
}

/// The field with this JSON name; spelled otherwise only if none is spelled so.
fn field_called(fields: &'static [Field], key: &str) -> Option<&'static Field> {
    let mut all = Vec::new();
    collect(fields, &mut all);
    let exact = all.iter().find(|field| field.name == key);
    exact
        .or_else(|| all.iter().find(|field| field.name.eq_ignore_ascii_case(key)))
        .copied()
}

fn collect(fields: &'static [Field], into: &mut Vec<&'static Field>) {
    into.extend(fields.iter().filter(|field| !field.name.is_empty()));
    for (_, inner) in inlined(fields) {
        collect(inner, into);
    }
}
