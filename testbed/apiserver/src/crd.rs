//! Custom resources: their structural schemas, what the server does with objects under one, and the
//! CustomResourceDefinition objects that carry them.
//!
//! Everything here is pure: no IO, no clock, no store. `definitions` decides when a definition is served.

pub mod columns;
mod costs;
mod decode;
mod default;
mod default_rules;
pub mod defaulting;
mod definition_strategy;
mod dump;
pub mod embedded;
mod embedded_meta;
pub mod jsonpath;
pub mod lifecycle;
pub mod list_type;
mod names;
pub mod object_meta;
mod openapi;
pub mod pruning;
pub mod ratchet;
mod rule_declarations;
mod rules;
mod scale;
mod schema_rules;
mod selectable;
mod spec;
mod strategy;
mod strict;
pub mod structural;
mod structural_rules;
#[cfg(test)]
mod tests;
pub mod validate;
mod version_parts;

use std::sync::Arc;

use aplomb_apimachinery::resource::Resource;
use aplomb_apimachinery::status::GroupResource;
use serde_json::Value;

pub use definition_strategy::DefinitionStrategy;
pub use strategy::CrdStrategy;
pub use strict::duplicate_fields;
pub use structural::Structural;

/// The resources a definition makes the server serve, one per served version, in its order. Names
/// are the accepted ones; a definition without a plural or kind serves nothing.
#[must_use]
pub fn resources_of(crd: &Value) -> Vec<Resource> {
    let names = Names::of(crd);
    if names.plural.is_empty() || names.kind.is_empty() {
        return Vec::new();
    }
    versions(crd)
        .filter(|version| is_true(version, "served"))
        .map(|version| resource(crd, version, &names))
        .collect()
}

/// The version objects are stored as.
#[must_use]
pub fn storage_version(crd: &Value) -> &str {
    stored(crd).map_or("", |version| text(version, "name"))
}

fn stored(crd: &Value) -> Option<&Value> {
    versions(crd).find(|version| is_true(version, "storage"))
}

fn resource(crd: &Value, version: &Value, names: &Names) -> Resource {
    let spec = &crd["spec"];
    let group = text(spec, "group");
    Resource {
        group: group.to_owned(),
        version: text(version, "name").to_owned(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        namespaced: text(spec, "scope") == "Namespaced",
        has_status: version.pointer("/subresources/status").is_some(),
        verbs: Vec::new(),
        storage: GroupResource::new(group, &names.plural),
        strategy: Arc::new(CrdStrategy::new(
            group,
            &names.kind,
            version,
            stored(crd).unwrap_or(version),
        )),
    }
}

/// The names a definition is served under.
struct Names {
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
}

impl Names {
    /// The accepted names, or the wanted ones while nothing was decided yet.
    fn of(crd: &Value) -> Self {
        let accepted = crd
            .pointer("/status/acceptedNames")
            .filter(|names| !text(names, "plural").is_empty());
        let names = accepted.unwrap_or(&crd["spec"]["names"]);
        let or = |text: &str, default: String| {
            if text.is_empty() { default } else { text.to_owned() }
        };
        let kind = text(names, "kind");
        Self {
            plural: text(names, "plural").to_owned(),
            singular: or(text(names, "singular"), kind.to_lowercase()),
            kind: kind.to_owned(),
            list_kind: or(text(names, "listKind"), format!("{kind}List")),
            short_names: texts(names, "shortNames"),
            categories: texts(names, "categories"),
        }
    }
}

/// Whether a condition of the definition's status is true.
#[must_use]
pub fn is_true_condition(crd: &Value, kind: &str) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|c| text(c, "type") == kind && text(c, "status") == "True")
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn is_true(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&Value::Bool(true))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    let items = value.get(key).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
