//! Field management as a whole: rules as tables, laws as properties.
//!
//! The cases say in small what was seen on the real server; the comparison itself is the
//! conformance suite's and the differential run's business.

mod apply;
mod lists;
mod managers;
pub(super) mod properties;
mod refusals;
mod versions;

use serde_json::{Value, json};

use super::managed::entries;
use super::openapi::Components;
use super::{FieldManager, MergeError, Version, Writer};

pub(super) const V1: &str = "example.com/v1";

/// A schema with one of everything.
pub(super) fn openapi() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "default": 1},
            "text": text,
            "any": {"x-kubernetes-int-or-string": true},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "proto"],
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"}, "proto": {"type": "string", "default": "TCP"}, "name": text,
                }},
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "plain": {"type": "array", "items": text},
            "colour": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
            "attrs": {"type": "object", "additionalProperties": text},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "properties": {"phase": text}},
    }})
}

fn field_manager(openapi: &Value) -> FieldManager {
    FieldManager::new("Widget", &[version(V1, openapi)], &Components::new(), true)
}

fn version<'a>(api_version: &'a str, openapi: &'a Value) -> Version<'a> {
    let only = |name: &str| vec![name.to_owned()];
    Version {
        api_version,
        openapi,
        empty: json!({}),
        reset_main: vec![only("status")],
        reset_status: vec![only("metadata"), only("spec")],
    }
}

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        api_version: V1,
        subresource: "",
        time: "2024-01-01T00:00:00Z",
    }
}

pub(super) fn widget(spec: &Value) -> Value {
    json!({"apiVersion": V1, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

/// An object and what happens to it.
struct Story {
    manager: FieldManager,
    live: Option<Value>,
}

impl Story {
    fn new() -> Self {
        Self {
            manager: field_manager(&openapi()),
            live: None,
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "cases read better without the borrow")]
    fn apply(&mut self, who: &str, spec: Value) -> Result<&Value, MergeError> {
        self.apply_object(who, &widget(&spec), false)
    }

    #[allow(clippy::needless_pass_by_value, reason = "cases read better without the borrow")]
    fn force(&mut self, who: &str, spec: Value) -> Result<&Value, MergeError> {
        self.apply_object(who, &widget(&spec), true)
    }

    fn apply_object(&mut self, who: &str, object: &Value, force: bool) -> Result<&Value, MergeError> {
        let result = self.manager.apply(self.live.as_ref(), object, &writer(who), force)?;
        Ok(self.live.insert(result))
    }

    /// A PUT of the object with this spec.
    fn update(&mut self, who: &str, spec: Value) -> &Value {
        let mut new = self.live.clone().unwrap_or_else(|| widget(&json!({})));
        new["spec"] = spec;
        if self.live.is_some() {
            new["metadata"]["uid"] = json!("u");
        }
        let new = self.manager.update(self.live.as_ref(), new, &writer(who));
        self.live.insert(new)
    }

    fn spec(&self) -> Value {
        self.live.as_ref().map_or(Value::Null, |live| live["spec"].clone())
    }

    /// `fieldsV1` of a manager, below `f:spec` where that is all it owns.
    fn owned(&self, who: &str) -> Value {
        let live = self.live.as_ref().unwrap_or(&Value::Null);
        let entry = entries(live)
            .into_iter()
            .flatten()
            .find(|entry| entry["manager"] == who);
        let fields = entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone());
        fields.get("f:spec").cloned().unwrap_or(fields)
    }
}

/// The paths a refused apply names.
fn conflicts(result: Result<&Value, MergeError>) -> Vec<String> {
    match result {
        Err(MergeError::Conflicts(conflicts)) => conflicts.iter().map(|conflict| conflict.cause().field).collect(),
        other => panic!("expected conflicts, got {other:?}"),
    }
}
