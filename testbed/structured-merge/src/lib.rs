//! Structured merge and field management, as the API server does them: who owns which field of an
//! object, what a server-side apply makes of it, and when it is a conflict.
//!
//! It stands alone: JSON values in, JSON values out, no clock, no storage, no knowledge of single
//! kinds and none of the server around it. What it needs to know of a resource is its OpenAPI schema.
//!
//! ```
//! use aplomb_structured_merge::{FieldManager, MergeError, Version, Writer};
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
//!     "replicas": {"type": "integer"},
//!     "ports": {
//!         "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
//!         "items": {"type": "object", "properties": {
//!             "name": {"type": "string"}, "port": {"type": "integer"},
//!         }},
//!     },
//! }}}});
//! let version = Version {
//!     api_version: "example.com/v1",
//!     openapi: &schema,
//!     empty: json!({}),
//!     reset_main: Vec::new(),
//!     reset_status: Vec::new(),
//! };
//! let widgets = FieldManager::new("Widget", &[version], &Default::default(), true);
//! let by = |manager| Writer {
//!     manager,
//!     api_version: "example.com/v1",
//!     subresource: "",
//!     time: "2026-01-01T00:00:00Z",
//! };
//! let widget = |spec| json!({
//!     "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec,
//! });
//!
//! // Two appliers, each with fields of its own: both are kept.
//! let people = widget(json!({"replicas": 1, "ports": [{"name": "http", "port": 80}]}));
//! let live = widgets.apply(None, &people, &by("people"), false)?;
//! let mesh = widget(json!({"ports": [{"name": "mesh", "port": 15}]}));
//! let live = widgets.apply(Some(&live), &mesh, &by("mesh"), false)?;
//! assert_eq!(live["spec"]["ports"].as_array().map(Vec::len), Some(2));
//!
//! // Another value for a field somebody else owns is refused, unless it is forced.
//! let scaler = widget(json!({"replicas": 5}));
//! let refused = widgets.apply(Some(&live), &scaler, &by("scaler"), false);
//! assert!(matches!(refused, Err(MergeError::Conflicts(fields)) if fields.len() == 1));
//! let live = widgets.apply(Some(&live), &scaler, &by("scaler"), true)?;
//! assert_eq!(live["spec"]["replicas"], 5);
//!
//! // An applier that no longer names a field gives it up; what nobody else owns is removed.
//! let live = widgets.apply(Some(&live), &widget(json!({})), &by("mesh"), false)?;
//! assert_eq!(live["spec"]["ports"], json!([{"name": "http", "port": 80}]));
//! # Ok::<(), MergeError>(())
//! ```
//!
//! [`FieldManager`] is the door: [`FieldManager::update`] for creates, updates and patches,
//! [`FieldManager::apply`] for server-side apply; its module says in which order a server calls
//! them. Below it stand, from the bottom up: values ([`value`]), paths and sets of fields
//! ([`path`], [`set`], [`fields_v1`]), types read from OpenAPI ([`schema`], [`openapi`]), the walks
//! over a value and its type ([`typed`]) and the rules of ownership ([`update`]). Messages follow
//! Go's verbs ([`aplomb_go_compat`]), because clients match on them.
#![forbid(unsafe_code)]

pub mod conflict;
pub mod fields_v1;
mod last_applied;
pub mod managed;
pub mod manager;
mod object;
mod object_meta;
pub mod openapi;
pub mod path;
pub mod schema;
pub mod set;
#[cfg(test)]
mod tests;
mod time;
pub mod typed;
pub mod types;
pub mod update;
pub mod value;

pub use manager::{FieldManager, MergeError, Version, Writer};
