//! The vendored descriptions of the built-in kinds, and the schemas resolved from them.
//!
//! Nothing here behaves: it only reads what `data/` holds. Reading is lazy, so that a box pays for
//! a kind's schema when that kind is first written to.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// One kind as the real server's discovery and Table answers describe it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) short_names: Vec<String>,
    pub(super) categories: Vec<String>,
    pub(super) namespaced: bool,
    pub(super) verbs: Vec<String>,
    pub(super) subresources: Vec<Subresource>,
    /// Name of the OpenAPI component.
    pub(super) schema: String,
    pub(super) columns: Vec<ColumnEntry>,
}

/// A subresource as discovery lists it.
#[derive(Debug, Deserialize)]
pub(super) struct Subresource {
    pub(super) name: String,
}

/// A Table column as the server describes it.
#[derive(Debug, Deserialize)]
pub(super) struct ColumnEntry {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) priority: i32,
}

/// The kinds in discovery order.
pub(super) static KINDS: LazyLock<Vec<Entry>> =
    LazyLock::new(|| serde_json::from_str(include_str!("data/kinds.json")).expect("vendored kinds are valid"));

static COMPONENTS: LazyLock<BTreeMap<String, Value>> =
    LazyLock::new(|| unpack(include_bytes!("data/components.json.gz")));

/// What a fresh server makes for itself, in the order in which it was recorded.
pub(super) fn cluster() -> Vec<Value> {
    unpack(include_bytes!("data/cluster.json.gz"))
}

/// A packed file of `data/`.
fn unpack<T: DeserializeOwned>(packed: &[u8]) -> T {
    serde_json::from_reader(GzDecoder::new(packed)).expect("vendored data is valid")
}

impl Entry {
    /// `v1` or `group/version`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The Go type objects are read as, a package path and a name: `io.k8s.api.core.v1.Pod` is
    /// `k8s.io/api/core/v1.Pod`.
    pub(super) fn go_type(&self) -> String {
        let path = self.schema.trim_start_matches("io.k8s.");
        let (package, name) = path.rsplit_once('.').unwrap_or((path, ""));
        format!("k8s.io/{}.{name}", package.replace('.', "/"))
    }
}

/// `components.schemas` of the real server's OpenAPI v3 documents for the built-in kinds, with
/// their `$ref`s.
#[must_use]
pub fn components() -> &'static BTreeMap<String, Value> {
    &COMPONENTS
}

/// The component called `name` with every `$ref` replaced by what it refers to. A schema inside
/// itself (JSONSchemaProps) becomes an object of anything.
pub(super) fn resolved(name: &str) -> Value {
    let mut open = Vec::new();
    reference(name, &mut open)
}

fn reference(name: &str, open: &mut Vec<String>) -> Value {
    let Some(component) = COMPONENTS.get(name) else {
        return json!({});
    };
    if open.iter().any(|seen| seen == name) {
        return json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    }
    open.push(name.to_owned());
    let schema = resolve(component, open);
    open.pop();
    schema
}

fn resolve(schema: &Value, open: &mut Vec<String>) -> Value {
    match schema {
        Value::Object(members) => resolve_members(members, open),
        Value::Array(items) => items.iter().map(|item| resolve(item, open)).collect(),
        other => other.clone(),
    }
}

/// Members beside a reference (`default`, `description`, list types) win over those of the
/// component.
fn resolve_members(members: &Map<String, Value>, open: &mut Vec<String>) -> Value {
    let base = target(members).map(|name| reference(name, open));
    let mut merged = match base {
        Some(Value::Object(base)) => base,
        _ => Map::new(),
    };
    for (key, value) in members {
        if target(members).is_some() && (key == "$ref" || key == "allOf") {
            continue;
        }
        merged.insert(key.clone(), resolve(value, open));
    }
    Value::Object(merged)
}

/// The component a schema is, directly or as its only `allOf`.
fn target(members: &Map<String, Value>) -> Option<&str> {
    let direct = members.get("$ref");
    let wrapped = members
        .get("allOf")
        .and_then(|all| match all.as_array().map(Vec::as_slice) {
            Some([only]) => only.get("$ref"),
            _ => None,
        });
    direct.or(wrapped)?.as_str()?.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_resolves_to_a_schema_without_references() {
        for entry in KINDS.iter() {
            let text = resolved(&entry.schema).to_string();
            assert!(!text.contains("#/components"), "{}", entry.kind);
            assert!(text.contains("managedFields"), "{}", entry.kind);
        }
    }

    #[test]
    fn list_keys_survive_resolution() {
        let service = resolved("io.k8s.api.core.v1.Service");
        let ports = &service["properties"]["spec"]["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["port", "protocol"]));
        assert_eq!(ports["items"]["properties"]["protocol"]["default"], "TCP");
    }
}
