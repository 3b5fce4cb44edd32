//! From an OpenAPI v3 schema with `x-kubernetes-*` extensions to the types of [`schema`](super::schema).
//!
//! The schema may be fully inlined or use `$ref`s to named components; a `$ref` that leads nowhere
//! is taken as "anything". Nothing here refuses a schema: that is the validation's business.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object_meta;
use super::schema::{Atom, Field, ListRelationship, ListType, MapType, Scalar, Schema, TypeId};

/// Where `$ref`s lead, by the last part of the reference.
pub type Components = BTreeMap<String, Value>;

/// Components that are not what their schema says.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// Reads the schema of an object; `metadata` is ObjectMeta whatever the schema says.
#[must_use]
pub fn read(openapi: &Value, components: &Components) -> (Schema, TypeId) {
    let mut reader = Reader::new(components, Schema::default());
    let root = reader.object(openapi, false, true);
    (reader.schema, root)
}

struct Reader<'a> {
    components: &'a Components,
    schema: Schema,
    refs: BTreeMap<&'a str, TypeId>,
    meta: Option<TypeId>,
}

impl<'a> Reader<'a> {
    fn new(components: &'a Components, schema: Schema) -> Self {
        Self {
            components,
            schema,
            refs: BTreeMap::new(),
            meta: None,
        }
    }

    /// `preserve`: an ancestor keeps unknown fields, and so do all below it.
    fn read(&mut self, node: &'a Value, preserve: bool) -> TypeId {
        if let Some(target) = reference(node) {
            return self.follow(node, target);
        }
        self.object(node, preserve, flag(node, "x-kubernetes-embedded-resource"))
    }

    fn object(&mut self, node: &'a Value, preserve: bool, is_object: bool) -> TypeId {
        let atom = self.atom(node, preserve, is_object);
        self.schema.add(atom)
    }

    fn follow(&mut self, node: &'a Value, target: &'a str) -> TypeId {
        let Some((name, component)) = self.components.get_key_value(target) else {
            return TypeId::DEDUCED;
        };
        if let Some(atomic) = map_relationship(node) {
            let mut atom = self.atom(component, false, false);
            if let Some(map) = &mut atom.map {
                map.atomic = atomic;
            }
            return self.schema.add(atom);
        }
        if let Some(id) = self.refs.get(name.as_str()) {
            return *id;
        }
        if name == RAW_EXTENSION {
            return TypeId::UNTYPED;
        }
        let id = self.schema.add(Atom::default());
        self.refs.insert(name, id);
        let atom = match name.as_str() {
            QUANTITY => Atom {
                scalar: Some(Scalar::Untyped),
                ..Atom::default()
            },
            _ => self.atom(component, false, false),
        };
        self.schema.replace(id, atom);
        id
    }

    fn atom(&mut self, node: &'a Value, preserve: bool, is_object: bool) -> Atom {
        let preserve = preserve || flag(node, "x-kubernetes-preserve-unknown-fields");
        match node.get("type").and_then(Value::as_str) {
            Some("object") => Atom {
                map: Some(self.map(node, preserve, is_object)),
                ..Atom::default()
            },
            Some("array") => Atom {
                list: Some(self.list(node, preserve)),
                ..Atom::default()
            },
            Some(scalar @ ("integer" | "number" | "string" | "boolean")) => {
                let format = node.get("format").and_then(Value::as_str).unwrap_or_default();
                Atom {
                    scalar: Some(scalar_type(scalar, format)),
                    ..Atom::default()
                }
            }
            _ => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.list(node, preserve)),
                map: Some(self.map(node, preserve, is_object)),
            },
        }
    }

    fn map(&mut self, node: &'a Value, preserve: bool, is_object: bool) -> MapType {
        let mut fields = BTreeMap::new();
        for (name, property) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let own_type = is_object && ["apiVersion", "kind", "metadata"].contains(&name.as_str());
            if !own_type {
                let kind = self.read(property, preserve);
                fields.insert(
                    name.clone(),
                    Field {
                        kind,
                        default: property.get("default").cloned(),
                    },
                );
            }
        }
        if is_object {
            self.add_object_fields(&mut fields);
        }
        let element = match node.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(TypeId::DEDUCED),
            Some(schema @ Value::Object(_)) => Some(self.read(schema, preserve)),
            Some(_) => None,
            None if preserve || fields.is_empty() => Some(TypeId::DEDUCED),
            None => None,
        };
        MapType {
            fields,
            element,
            atomic: map_relationship(node) == Some(true),
        }
    }

    fn add_object_fields(&mut self, fields: &mut BTreeMap<String, Field>) {
        let text = self.schema.add(Atom {
            scalar: Some(Scalar::String),
            ..Atom::default()
        });
        let meta = self.object_meta();
        for (name, kind) in [("apiVersion", text), ("kind", text), ("metadata", meta)] {
            fields.insert(name.to_owned(), Field { kind, default: None });
        }
    }

    fn object_meta(&mut self) -> TypeId {
        if let Some(meta) = self.meta {
            return meta;
        }
        let (openapi, nothing) = (object_meta::openapi(), Components::new());
        let mut reader = Reader::new(&nothing, std::mem::take(&mut self.schema));
        let meta = reader.object(&openapi, false, false);
        self.schema = reader.schema;
        self.meta = Some(meta);
        meta
    }

    fn list(&mut self, node: &'a Value, preserve: bool) -> ListType {
        let element = match node.get("items") {
            Some(items) => self.read(items, preserve),
            None => TypeId::UNTYPED,
        };
        ListType {
            element,
            relationship: list_relationship(node),
        }
    }
}

fn flag(node: &Value, extension: &str) -> bool {
    node.get(extension) == Some(&Value::Bool(true))
}

/// The name of a `$ref`'s component; it may be wrapped in `allOf` so that a default can stand
/// beside it.
fn reference(node: &Value) -> Option<&str> {
    let wrapped = match node.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref"),
        _ => None,
    };
    node.get("$ref").or(wrapped)?.as_str()?.rsplit('/').next()
}

fn scalar_type(name: &str, format: &str) -> Scalar {
    match (name, format) {
        ("integer" | "number", _) => Scalar::Numeric,
        ("boolean", _) => Scalar::Boolean,
        ("string", "" | "byte") => Scalar::String,
        _ => Scalar::Untyped,
    }
}

/// Whether a map is said to be atomic (`Some(true)`) or granular (`Some(false)`).
fn map_relationship(node: &Value) -> Option<bool> {
    match node.get("x-kubernetes-map-type")?.as_str()? {
        "atomic" => Some(true),
        _ => Some(false),
    }
}

fn list_relationship(node: &Value) -> ListRelationship {
    let text = |name: &str| node.get(name).and_then(Value::as_str);
    match (text("x-kubernetes-list-type"), text("x-kubernetes-patch-strategy")) {
        (Some("set"), _) => ListRelationship::Set,
        (Some("map"), _) => {
            let keys = node.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            keyed(keys.map(str::to_owned).collect())
        }
        (None, Some("merge" | "merge,retainKeys")) => keyed(
            text("x-kubernetes-patch-merge-key")
                .map(str::to_owned)
                .into_iter()
                .collect(),
        ),
        _ => ListRelationship::Atomic,
    }
}

fn keyed(keys: Vec<String>) -> ListRelationship {
    if keys.is_empty() {
        ListRelationship::Set
    } else {
        ListRelationship::Map(keys)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field<'s>(schema: &'s Schema, of: TypeId, name: &str) -> &'s Atom {
        let map = schema.atom(of).map.as_ref().expect("a map");
        schema.atom(map.field(name).expect("a field"))
    }

    fn inlined(openapi: &Value) -> (Schema, TypeId) {
        read(openapi, &Components::new())
    }

    fn relationship(atom: &Atom) -> Option<&ListRelationship> {
        atom.list.as_ref().map(|list| &list.relationship)
    }

    #[test]
    fn metadata_is_always_object_meta() {
        for openapi in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"metadata": {"type": "object"}}}),
        ] {
            let (schema, root) = inlined(&openapi);
            let map = schema.atom(root).map.as_ref().expect("a map");
            let meta = map.fields["metadata"].kind;
            assert_eq!(
                relationship(field(&schema, meta, "finalizers")),
                Some(&ListRelationship::Set)
            );
            assert_eq!(
                relationship(field(&schema, meta, "ownerReferences")),
                Some(&ListRelationship::Map(vec!["uid".into()]))
            );
            assert_eq!(map.element, None, "unknown fields are refused");
        }
    }

    #[test]
    fn list_and_map_types_are_read() {
        let (schema, root) = inlined(&json!({"type": "object", "properties": {
            "plain": {"type": "array", "items": {"type": "string"}},
            "merged": {"type": "array", "items": {"type": "object"}, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
            "colour": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "port": {"x-kubernetes-int-or-string": true},
            "time": {"type": "string", "format": "date-time"},
        }}));
        assert_eq!(
            relationship(field(&schema, root, "plain")),
            Some(&ListRelationship::Atomic)
        );
        assert_eq!(
            relationship(field(&schema, root, "merged")),
            Some(&ListRelationship::Map(vec!["name".into()]))
        );
        assert!(
            field(&schema, root, "colour")
                .map
                .as_ref()
                .is_some_and(|map| map.atomic)
        );
        assert_eq!(field(&schema, root, "port").scalar, Some(Scalar::Untyped));
        assert_eq!(field(&schema, root, "time").scalar, Some(Scalar::Untyped));
    }

    #[test]
    fn preserving_unknown_fields_reaches_below() {
        let (schema, root) = inlined(&json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}}
        }}}));
        let spec = schema.atom(root).map.as_ref().expect("a map").fields["spec"].kind;
        let inner = field(&schema, spec, "inner").map.as_ref().expect("a map");
        assert_eq!(inner.field("unheard"), Some(TypeId::DEDUCED));
    }

    #[test]
    fn references_may_be_recursive_or_lead_nowhere() {
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#/x/tree"}}});
        let properties = json!({
            "tree": {"allOf": [{"$ref": "#/x/tree"}]}, "lost": {"$ref": "#/x/none"},
            "whole": {"$ref": "#/x/tree", "x-kubernetes-map-type": "atomic"},
        });
        let openapi = json!({"type": "object", "properties": properties});
        let (schema, root) = read(&openapi, &Components::from([("tree".to_owned(), tree)]));
        let map = schema.atom(root).map.as_ref().expect("a map");
        let tree = map.fields["tree"].kind;
        assert_eq!(
            schema.atom(tree).map.as_ref().and_then(|map| map.field("next")),
            Some(tree)
        );
        assert_eq!(map.fields["lost"].kind, TypeId::DEDUCED);
        assert!(field(&schema, root, "whole").map.as_ref().is_some_and(|map| map.atomic));
    }
}
