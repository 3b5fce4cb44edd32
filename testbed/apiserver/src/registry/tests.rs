//! The verbs on a kind of our own, in virtual time.

mod deletion;
mod reading;
mod watching;
mod writing;

use std::sync::Arc;

use aplomb_apimachinery::clock::Clock;
use aplomb_apimachinery::field::FieldError;
use aplomb_apimachinery::object;
use aplomb_apimachinery::resource::{Column, Decoded, Part, Resource, Strategy};
use aplomb_apimachinery::status::{ApiError, GroupResource};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::{Call, Outcome, PatchType, Verb, WatchEvent};
use crate::server::ApiServer;

/// A kind with a specification, a status and a generation.
#[derive(Debug)]
struct Plain {
    openapi: Value,
    custom: bool,
}

impl Strategy for Plain {
    fn decode(&self, body: Value) -> Result<Decoded, ApiError> {
        Ok(Decoded {
            object: body,
            unknown: Vec::new(),
        })
    }

    fn default(&self, _object: &mut Value) {}

    fn prepare_create(&self, object: &mut Value) {
        object::set_or_remove(object, "generation", self.custom.then(|| 1.into()));
        if let Some(map) = object.as_object_mut().filter(|_| self.custom) {
            map.remove("status");
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        let generation = object::generation(old);
        if part == Part::Status {
            let status = object.get("status").cloned();
            *object = old.clone();
            object["status"] = status.unwrap_or_default();
        } else if self.custom {
            object["status"] = old.get("status").cloned().unwrap_or_default();
            if object.get("spec") != old.get("spec") {
                object::set_or_remove(object, "generation", Some((generation + 1).into()));
            }
        }
        if let Some(map) = object
            .as_object_mut()
            .filter(|map| map.get("status") == Some(&Value::Null))
        {
            map.remove("status");
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let bad = object.pointer("/spec/bad").is_some();
        bad.then(|| FieldError::forbidden("spec.bad", "not here"))
            .into_iter()
            .collect()
    }

    fn validate_update(&self, object: &Value, _old: &Value, _part: Part) -> Vec<FieldError> {
        self.validate_create(object)
    }

    fn allow_unconditional_update(&self) -> bool {
        !self.custom
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        aplomb_apimachinery::validation::metadata::dns_subdomain(name, prefix)
    }

    fn openapi(&self) -> &Value {
        &self.openapi
    }

    fn reset_fields(&self, _part: Part) -> Vec<Vec<String>> {
        Vec::new()
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(String, String)> {
        let color = object
            .pointer("/spec/color")
            .and_then(Value::as_str)
            .unwrap_or_default();
        vec![("spec.color".into(), color.into())]
    }

    fn is_custom(&self) -> bool {
        self.custom
    }

    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn cells(&self, _object: &Value, _now: Timestamp) -> Vec<Value> {
        Vec::new()
    }
}

fn resource(group: &str, plural: &str, kind: &str, namespaced: bool) -> Resource {
    Resource {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        has_status: true,
        verbs: Vec::new(),
        storage: GroupResource::new(group, plural),
        strategy: Arc::new(Plain {
            openapi: json!({"type": "object"}),
            custom: !group.is_empty(),
        }),
    }
}

/// A server with Widgets (custom), ConfigMaps and Namespaces.
fn server() -> ApiServer {
    ApiServer::builder()
        .clock(Clock::new(Timestamp::UNIX_EPOCH, 7))
        .resources(vec![
            resource("example.com", "widgets", "Widget", true),
            resource("", "configmaps", "ConfigMap", true),
            resource("", "namespaces", "Namespace", false),
        ])
        .build()
}

fn call(server: &ApiServer, verb: Verb) -> Call {
    let widgets = server.resource("example.com", "v1", "widgets").expect("served");
    Call::new(verb, widgets).namespace("default")
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}})
}

async fn object(server: &ApiServer, call: Call) -> Result<Value, ApiError> {
    match server.call(call).await? {
        Outcome::Object { object, .. } => Ok(std::sync::Arc::unwrap_or_clone(object)),
        other => panic!("expected an object, got {other:?}"),
    }
}

async fn create(server: &ApiServer, body: &Value) -> Result<Value, ApiError> {
    object(server, call(server, Verb::Create).body(body)).await
}

async fn merge(server: &ApiServer, name: &str, body: &Value) -> Result<Value, ApiError> {
    let patch = call(server, Verb::Patch).name(name).patch(PatchType::Merge).body(body);
    object(server, patch).await
}

async fn delete(server: &ApiServer, name: &str) -> Result<Value, ApiError> {
    object(server, call(server, Verb::Delete).name(name)).await
}

/// An event as one line: its type, name and version.
fn line(event: &WatchEvent) -> String {
    let of = |object: &Value| format!("{} {}", object::name(object), object::resource_version(object));
    match event {
        WatchEvent::Added(object) => format!("ADDED {}", of(object)),
        WatchEvent::Modified(object) => format!("MODIFIED {}", of(object)),
        WatchEvent::Deleted(object) => format!("DELETED {}", of(object)),
        WatchEvent::Bookmark(object) => format!("BOOKMARK{}", of(object)),
        WatchEvent::Error(error) => format!("ERROR {} {}", error.code, error.message),
    }
}
