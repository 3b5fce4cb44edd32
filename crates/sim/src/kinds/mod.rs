//! The built-in kinds: what they look like, and how their objects behave.
//!
//! `data/` holds what the real server says about each kind; `decode` reads bodies by it; one module
//! per kind (or family of kinds) holds its defaults, rules and printed columns. Nothing here stores
//! anything or knows HTTP.

mod admission;
mod behaviour;
mod bootstrap;
mod check;
mod claims;
mod cluster;
mod config;
mod data;
mod decode;
mod encode;
mod endpoints;
mod events;
mod gobase64;
mod gotime;
mod gotype;
mod leases;
mod names;
mod pods;
mod policy;
mod print;
mod quantity;
mod rbac;
mod scheme;
mod services;
mod shown;
mod strategy;
mod value;
mod workloads;

use std::sync::Arc;

use serde_json::Value;

pub use bootstrap::bootstrap;
pub use data::components;

use crate::resource::{Decoded, Resource, Strategy};
use crate::status::{ApiError, GroupResource};

use self::behaviour::Behaviour;
use self::data::Entry;
use self::strategy::BuiltinStrategy;

const CRD: &str = "customresourcedefinitions";

/// The built-in kinds in discovery order, but for custom resource definitions, whose strategy is
/// not a table.
#[must_use]
pub fn builtin() -> Vec<Resource> {
    data::KINDS
        .iter()
        .filter(|entry| entry.plural != CRD)
        .map(|entry| {
            resource(
                entry,
                Arc::new(BuiltinStrategy::new(entry, behaviour_of(entry))),
            )
        })
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
    BuiltinStrategy::new(crd_entry(), &Behaviour::PLAIN).decode(body)
}

/// The OpenAPI schema of CustomResourceDefinition with its references resolved.
#[must_use]
pub fn custom_resource_definition_openapi() -> Value {
    data::resolved(&crd_entry().schema)
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

fn behaviour_of(entry: &Entry) -> &'static Behaviour {
    match (entry.group.as_str(), entry.kind.as_str()) {
        ("", "ConfigMap") => &config::CONFIG_MAP,
        ("", "Endpoints") => &endpoints::ENDPOINTS,
        ("", "Event") => &events::CORE,
        ("", "Namespace") => &cluster::NAMESPACE,
        ("", "Node") => &cluster::NODE,
        ("", "PersistentVolumeClaim") => &claims::CLAIM,
        ("", "Pod") => &pods::POD,
        ("", "Secret") => &config::SECRET,
        ("", "Service") => &services::SERVICE,
        ("", "ServiceAccount") => &config::SERVICE_ACCOUNT,
        ("apps", "Deployment") => &workloads::DEPLOYMENT,
        ("apps", "ReplicaSet") => &workloads::REPLICA_SET,
        ("events.k8s.io", _) => &events::NEW,
        ("networking.k8s.io", _) => &policy::NETWORK_POLICY,
        ("policy", _) => &policy::POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "Role") => &rbac::ROLE,
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::ROLE_BINDING,
        ("rbac.authorization.k8s.io", _) => &rbac::CLUSTER_ROLE_BINDING,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => &admission::POLICY,
        ("admissionregistration.k8s.io", _) => &admission::BINDING,
        ("coordination.k8s.io", _) => &leases::LEASE,
        ("discovery.k8s.io", _) => &endpoints::ENDPOINT_SLICE,
        _ => &Behaviour::PLAIN,
    }
}

#[cfg(test)]
mod tests;
