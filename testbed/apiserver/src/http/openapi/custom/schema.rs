//! The schema of a custom resource as OpenAPI v3 shows it: the definition's own, with what its
//! extensions imply spelled out and the head that every object has.

use serde_json::{Map, Value, json};

use super::{Version, reference};
use crate::http::openapi::proto::Edition;

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The keys under which one schema holds others that may themselves hold objects.
const CHILDREN: [&str; 2] = ["items", "additionalProperties"];

/// The kind's schema.
pub(super) fn publish(version: &Version<'_>) -> Value {
    let mut schema = match version.schema() {
        Some(schema) => {
            let mut schema = unfold(schema);
            finish(&mut schema, Edition::V3);
            schema
        }
        None => object(),
    };
    describe(&mut schema, version, version.kind);
    Value::Object(schema)
}

/// A schema of which nothing is known.
pub(super) fn object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), Value::from("object"))])
}

/// The head every object has, and that of each object embedded in it.
pub(super) fn finish(schema: &mut Map<String, Value>, edition: Edition) {
    let head = [
        ("metadata", described_reference(edition, OBJECT_META, METADATA)),
        ("apiVersion", described(API_VERSION)),
        ("kind", described(KIND)),
    ];
    set_properties(schema, head);
    embed(schema, edition);
}

/// Which kind the schema is of, and the fields its objects can be selected by.
pub(super) fn describe(schema: &mut Map<String, Value>, version: &Version<'_>, kind: &str) {
    let own = json!([{ "group": version.group, "version": version.version, "kind": kind }]);
    schema.insert("x-kubernetes-group-version-kind".into(), own);
    let fields = version.entry["selectableFields"].as_array();
    if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
        let field = |field: &Value| {
            let path = field["jsonPath"].as_str().unwrap_or_default();
            json!({ "fieldPath": path.strip_prefix('.').unwrap_or(path) })
        };
        let fields = fields.iter().map(field).collect();
        schema.insert("x-kubernetes-selectable-fields".into(), fields);
    }
}

/// The schema of the list kind.
pub(super) fn list(version: &Version<'_>, edition: Edition) -> Value {
    let items = reference(edition, &version.model(version.kind));
    let more = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let doc = format!("List of {}. More info: {more}", version.plural);
    let mut schema = object();
    let description = format!("{} is a list of {}", version.list_kind, version.kind);
    schema.insert("description".into(), description.into());
    schema.insert("required".into(), json!(["items"]));
    let items = json!({ "description": doc, "type": "array", "items": { "$ref": items } });
    let properties = [
        ("items", items),
        ("metadata", described_reference(edition, LIST_META, LIST_METADATA)),
        ("apiVersion", described(API_VERSION)),
        ("kind", described(KIND)),
    ];
    set_properties(&mut schema, properties);
    describe(&mut schema, version, version.list_kind);
    Value::Object(schema)
}

/// A copy in which a number or a string says that it may be either.
fn unfold(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut copy: Map<String, Value> = schema
        .iter()
        .filter(|(key, value)| !is_nothing(key, value))
        .map(|(key, value)| (key.clone(), unfold_member(key, value)))
        .collect();
    if copy.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) && !says_both(schema) {
        let both = json!([{ "type": "integer" }, { "type": "string" }]);
        if copy.contains_key("anyOf") {
            let mut all = vec![json!({ "anyOf": both })];
            all.extend(copy.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default());
            copy.insert("allOf".into(), all.into());
        } else {
            copy.insert("anyOf".into(), both);
        }
    }
    copy
}

/// Members that say nothing are not shown.
pub(super) fn is_nothing(key: &str, value: &Value) -> bool {
    match key {
        "default" | "example" => value.is_null(),
        "properties" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

fn unfold_member(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("properties", Value::Object(properties)) => {
            let each = |(name, schema): (&String, &Value)| (name.clone(), unfold_child(schema));
            Value::Object(properties.iter().map(each).collect())
        }
        (key, _) if CHILDREN.contains(&key) => unfold_child(value),
        _ => value.clone(),
    }
}

fn unfold_child(schema: &Value) -> Value {
    schema
        .as_object()
        .map_or_else(|| schema.clone(), |schema| Value::Object(unfold(schema)))
}

/// Whether the schema says itself that it is a number or a string, in one of the two ways it may.
fn says_both(schema: &Map<String, Value>) -> bool {
    let both = json!([{ "type": "integer" }, { "type": "string" }]);
    if schema.get("anyOf") == Some(&both) {
        return true;
    }
    let first = schema.get("allOf").and_then(|all| all.get(0));
    first.is_some_and(|first| first["anyOf"] == both)
}

/// Gives each embedded object the head it has.
fn embed(schema: &mut Map<String, Value>, edition: Edition) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let children = properties.values_mut().filter_map(Value::as_object_mut);
        children.for_each(|child| embed(child, edition));
    }
    for key in CHILDREN {
        if let Some(Value::Object(child)) = schema.get_mut(key) {
            embed(child, edition);
        }
    }
    let says = |key: &str| schema.get(key) == Some(&Value::Bool(true));
    let open = edition == Edition::V2 && says("x-kubernetes-preserve-unknown-fields");
    if !says("x-kubernetes-embedded-resource") || open {
        return;
    }
    let head = [
        ("apiVersion", described(EMBEDDED_API_VERSION)),
        ("kind", described(EMBEDDED_KIND)),
        ("metadata", described_reference(edition, OBJECT_META, METADATA)),
    ];
    set_properties(schema, head);
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}

fn set_properties<const N: usize>(schema: &mut Map<String, Value>, set: [(&str, Value); N]) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.extend(set.map(|(name, value)| (name.to_owned(), value)));
    }
}

fn described(description: &str) -> Value {
    json!({ "description": description, "type": "string" })
}

/// OpenAPI v3 has nothing beside a reference: the description stands around it.
fn described_reference(edition: Edition, model: &str, description: &str) -> Value {
    let target = reference(edition, model);
    match edition {
        Edition::V3 => json!({ "description": description, "allOf": [{ "$ref": target }] }),
        Edition::V2 => json!({ "description": description, "$ref": target }),
    }
}
