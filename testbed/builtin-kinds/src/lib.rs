//! The built-in kinds: what they look like, and how their objects behave.
//!
//! `data/` holds what the real server says about each kind; `decode` reads bodies by it; one module
//! per kind (or family of kinds) holds its defaults, rules and printed columns. Nothing here stores
//! anything or knows HTTP.
#![forbid(unsafe_code)]

mod addresses;
mod admission;
mod autoscaling;
mod behavior;
mod bootstrap;
mod certificates;
mod check;
mod claims;
mod classes;
mod cluster;
mod config;
mod data;
mod decode;
mod devices;
mod encode;
mod endpoints;
mod events;
mod flow;
mod gotype;
pub mod hash;
mod health;
mod ingress;
mod layout;
mod leases;
mod patch_meta;
pub mod plugins;
mod pods;
mod policy;
mod print;
pub mod published;
mod quantity;
mod quota;
mod rbac;
mod registration;
mod require;
mod scheme;
mod services;
mod shown;
mod storage;
mod strategy;
mod subkinds;
mod table;
mod unstructured;
pub mod usage;
mod value;
mod webhooks;
mod workloads;

use std::sync::Arc;

use serde_json::Value;

pub use admission::{Compiler, Wanted};
pub use bootstrap::{Own, bootstrap, cluster};
pub use check::selects;
pub use data::components;
pub use layout::{LaidOut, laid_out, list_meta};
pub use pods::defaults::qos_class;
pub use subkinds::{Subkind, label_selector_text, subkind};

use aplomb_apimachinery::resource::{Decoded, PatchMeta, Resource, Strategy};
use aplomb_apimachinery::status::{ApiError, GroupResource};

use self::behavior::KindBehavior;
use self::data::Entry;
use self::gotype::GoType;
use self::strategy::BuiltinStrategy;
use self::table::behaviour_of;

const CRD: &str = "customresourcedefinitions";

/// The built-in kinds in discovery order, but for custom resource definitions, whose strategy is
/// not a table.
#[must_use]
pub fn builtin() -> Vec<Resource> {
    data::KINDS
        .iter()
        .filter(|entry| entry.plural != CRD)
        .map(|entry| resource(entry, Arc::new(BuiltinStrategy::new(entry, behaviour_of(entry)))))
        .collect()
}

/// `customresourcedefinitions`, with the strategy given.
///
/// # Panics
/// Never: the vendored table has the kind.
#[must_use]
pub fn custom_resource_definitions(strategy: Arc<dyn Strategy>) -> Resource {
    resource(crd_entry(), strategy)
}

/// Reads a body as a CustomResourceDefinition, as [`Strategy::decode`] does.
///
/// # Errors
/// The server's answer to a body that is not one.
pub fn decode_custom_resource_definition(body: Value) -> Result<Decoded, ApiError> {
    BuiltinStrategy::new(crd_entry(), &KindBehavior::PLAIN).decode(body)
}

/// How a strategic merge patch sees a CustomResourceDefinition, whose OpenAPI schema is given.
#[must_use]
pub fn custom_resource_definition_patch_meta(schema: &Value) -> Box<dyn PatchMeta + '_> {
    patch_meta::of(&crd_entry().go_type(), schema)
}

/// Reads a merged object as a CustomResourceDefinition, as [`Strategy::convert_patched`] does.
///
/// # Errors
/// Why it is none.
pub fn convert_patched_custom_resource_definition(merged: Value) -> Result<Decoded, String> {
    BuiltinStrategy::new(crd_entry(), &KindBehavior::PLAIN).convert_patched(merged)
}

/// The OpenAPI schema of CustomResourceDefinition with its references resolved.
#[must_use]
pub fn custom_resource_definition_openapi() -> Value {
    data::resolved(&crd_entry().schema)
}

/// An object of a built-in kind with nothing set, without `apiVersion` and `kind`: the fields Go's
/// encoder never leaves out. A create is compared with it, so what it holds is nobody's.
#[must_use]
pub fn empty_object(resource: &Resource) -> Value {
    let is_it = |entry: &&Entry| {
        entry.group == resource.group && entry.version == resource.version && entry.plural == resource.plural
    };
    let entry = data::KINDS.iter().find(is_it);
    entry.map_or_else(
        || subkinds::empty_object(resource),
        |entry| encode::zero(&GoType::Named(entry.go_type())),
    )
}

fn crd_entry() -> &'static Entry {
    data::KINDS
        .iter()
        .find(|entry| entry.plural == CRD)
        .expect("the vendored table has the kind")
}

fn resource(entry: &'static Entry, strategy: Arc<dyn Strategy>) -> Resource {
    // Both forms of an event are one object.
    let storage_group = if entry.plural == "events" {
        ""
    } else {
        entry.group.as_str()
    };
    Resource {
        group: entry.group.clone(),
        version: entry.version.clone(),
        plural: entry.plural.clone(),
        singular: entry.singular.clone(),
        kind: entry.kind.clone(),
        list_kind: format!("{}List", entry.kind),
        short_names: entry.short_names.clone(),
        categories: entry.categories.clone(),
        namespaced: entry.namespaced,
        has_status: entry.subresources.iter().any(|sub| sub.name == "status"),
        verbs: entry.verbs.clone(),
        storage: GroupResource::new(storage_group, &entry.plural),
        strategy,
    }
}

#[cfg(test)]
mod tests;
