//! Types of expressions, and the type a schema gives to `self`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::escape::escape;
use crate::schema::structural::Structural;

/// A type. `Error` is what an expression with a mistake has; it fits everywhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Dyn,
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<Object>),
    Optional(Arc<Type>),
    Kind(Arc<Type>),
    Opaque(&'static str),
    /// A parameter of a function's signature.
    Param(char),
}

/// An object with known fields, under their escaped names.
#[derive(Debug)]
pub(crate) struct Object {
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, Type>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    pub(crate) fn list(item: Type) -> Self {
        Self::List(Arc::new(item))
    }

    /// An object with these fields and no others.
    pub(crate) fn object<'a>(
        name: &str,
        fields: impl IntoIterator<Item = (&'a str, Type)>,
    ) -> Self {
        let fields = fields
            .into_iter()
            .map(|(field, kind)| (field.to_owned(), kind));
        Self::Object(Arc::new(Object {
            name: name.to_owned(),
            fields: fields.collect(),
        }))
    }

    /// The name of the type of a whole expression, which differs from the one mistakes are told with.
    pub(crate) fn declared_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::List(item) => format!("list({})", item.declared_name()),
            Self::Map(key, value) => {
                format!("map({}, {})", key.declared_name(), value.declared_name())
            }
            Self::Optional(value) => format!("optional_type({})", value.declared_name()),
            other => other.to_string(),
        }
    }

    pub(super) fn optional(value: Type) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub(super) fn is_flexible(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether null may stand for a value of this type.
    pub(super) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Object(_)
                | Self::Timestamp
                | Self::Duration
                | Self::Opaque(_)
                | Self::Optional(_)
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("*error*"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Kind(inner) => write!(f, "type({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}

/// The type of values of a schema; `None` for those rules cannot see.
pub(super) fn of_schema(schema: &Structural, name: &str, is_resource: bool) -> Option<Type> {
    if schema.extensions.int_or_string {
        return Some(Type::Dyn);
    }
    match schema.type_name.as_str() {
        "array" => {
            let items = schema.items.as_deref()?;
            let item = of_schema(
                items,
                &format!("{name}.@idx"),
                items.extensions.embedded_resource,
            )?;
            Some(Type::list(item))
        }
        "object" => of_object(schema, name, is_resource),
        "string" => Some(match schema.format.as_str() {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        }),
        "boolean" => Some(Type::Bool),
        "number" => Some(Type::Double),
        "integer" => Some(Type::Int),
        _ => None,
    }
}

fn of_object(schema: &Structural, name: &str, is_resource: bool) -> Option<Type> {
    if let Some(additional) = schema.additional_schema() {
        let is_resource = additional.extensions.embedded_resource;
        let value = of_schema(additional, &format!("{name}.@elem"), is_resource)?;
        return Some(Type::Map(Arc::new(Type::String), Arc::new(value)));
    }
    let mut fields = BTreeMap::new();
    for (property, child) in &schema.properties {
        let inner = of_schema(
            child,
            &format!("{name}.{property}"),
            child.extensions.embedded_resource,
        );
        if let (Some(inner), Some(escaped)) = (inner, escape(property)) {
            fields.insert(escaped, inner);
        }
    }
    if is_resource {
        fields.insert("apiVersion".into(), Type::String);
        fields.insert("kind".into(), Type::String);
        let meta = ["name", "generateName"].map(|field| (field.to_owned(), Type::String));
        let object = Object {
            name: format!("{name}.metadata"),
            fields: BTreeMap::from(meta),
        };
        fields.insert("metadata".into(), Type::Object(Arc::new(object)));
    }
    Some(Type::Object(Arc::new(Object {
        name: name.to_owned(),
        fields,
    })))
}
