//! What is published about a custom resource: its schemas and the operations on it, in OpenAPI v3
//! and v2, as the server makes them from an established definition.
//!
//! Nothing here is validated; a definition that is established has been.

mod operations;
mod parameters;
mod schema;
mod swagger;

use serde_json::{Map, Value};

pub(super) use parameters::components;

use super::proto::Edition;

/// One served version of a definition.
#[derive(Debug)]
pub(super) struct Version<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    kind: &'a str,
    list_kind: &'a str,
    plural: &'a str,
    namespaced: bool,
    /// The definition's own switch of old to keep unknown fields.
    preserves: bool,
    /// This version's entry in the definition.
    entry: &'a Value,
}

/// What one version adds to a document.
#[derive(Debug, Default)]
pub(super) struct Fragment {
    pub(super) schemas: Map<String, Value>,
    pub(super) paths: Map<String, Value>,
}

impl<'a> Version<'a> {
    /// The versions of a definition that are served.
    pub(super) fn of(crd: &'a Value) -> Vec<Self> {
        let spec = &crd["spec"];
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        let versions = spec["versions"].as_array().into_iter().flatten();
        versions
            .filter(|entry| entry["served"] == true)
            .map(|entry| Self {
                group: text(&spec["group"]),
                version: text(&entry["name"]),
                kind: text(&spec["names"]["kind"]),
                list_kind: text(&spec["names"]["listKind"]),
                plural: text(&spec["names"]["plural"]),
                namespaced: spec["scope"] == "Namespaced",
                preserves: spec["preserveUnknownFields"] == true,
                entry,
            })
            .collect()
    }

    /// What this version adds to the document of its group version, or to that of OpenAPI v2.
    pub(super) fn fragment(&self, edition: Edition) -> Fragment {
        let kind = match edition {
            Edition::V3 => schema::publish(self),
            Edition::V2 => swagger::publish(self),
        };
        let list = schema::list(self, edition);
        let schemas = [(self.model(self.kind), kind), (self.model(self.list_kind), list)];
        Fragment {
            schemas: schemas.into_iter().collect(),
            paths: operations::paths(self, edition),
        }
    }

    /// The path of this version's document in OpenAPI v3.
    pub(super) fn document_path(&self) -> String {
        format!("apis/{}/{}", self.group, self.version)
    }

    /// Whether the version has a subresource.
    pub(super) fn has(&self, subresource: &str) -> bool {
        !self.entry["subresources"][subresource].is_null()
    }

    /// The name of a schema: the group backwards, the version, the kind.
    fn model(&self, kind: &str) -> String {
        let parts: Vec<&str> = self.group.split('.').rev().collect();
        format!("{}.{}.{kind}", parts.join("."), self.version)
    }

    fn schema(&self) -> Option<&'a Map<String, Value>> {
        self.entry["schema"]["openAPIV3Schema"].as_object()
    }
}

/// The reference to a schema as an edition writes it.
fn reference(edition: Edition, model: &str) -> String {
    let prefix = match edition {
        Edition::V3 => "#/components/schemas/",
        Edition::V2 => "#/definitions/",
    };
    format!("{prefix}{model}")
}
