//! Types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type. `Error` is what an expression with a mistake has; it fits everywhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
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
pub struct Object {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    pub fn list(item: Type) -> Self {
        Self::List(Arc::new(item))
    }

    /// An object with these fields and no others.
    pub fn object<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, Type)>) -> Self {
        let fields = fields.into_iter().map(|(field, kind)| (field.to_owned(), kind));
        Self::Object(Arc::new(Object {
            name: name.to_owned(),
            fields: fields.collect(),
        }))
    }

    /// The name of the type of a whole expression, which differs from the one mistakes are told with.
    pub fn declared_name(&self) -> String {
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

    pub fn optional(value: Type) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub(super) fn is_flexible(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether null may stand for a value of this type.
    pub(super) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Object(_) | Self::Timestamp | Self::Duration | Self::Opaque(_) | Self::Optional(_)
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
