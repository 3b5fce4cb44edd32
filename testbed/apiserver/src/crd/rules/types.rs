//! The type that a schema gives to `self`.

use std::collections::BTreeMap;
use std::sync::Arc;

use aplomb_cel::{Object, Type, escape};

use crate::crd::structural::Structural;

/// The type of values of a schema; `None` for those rules cannot see.
pub(super) fn of_schema(schema: &Structural, name: &str, is_resource: bool) -> Option<Type> {
    if schema.extensions.int_or_string {
        return Some(Type::Dyn);
    }
    match schema.type_name.as_str() {
        "array" => {
            let items = schema.items.as_deref()?;
            let item = of_schema(items, &format!("{name}.@idx"), items.extensions.embedded_resource)?;
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
        let inner = of_schema(child, &format!("{name}.{property}"), child.extensions.embedded_resource);
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
