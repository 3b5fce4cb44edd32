//! The observed state of a tunnel. An unchanged state gives an unchanged status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The observed state of an HTTPProxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpProxyStatus {
    /// The hostname to show: the first accepted custom hostname, or the platform's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The hostname that the platform assigns, derived from the UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical_hostname: Option<String>,
    /// Each hostname, and whether this tunnel may serve it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["hostname"]))]
    pub hostname_statuses: Vec<HostnameStatus>,
    /// The connectors it uses, for display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
    /// The addresses of the live gateways' listeners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The objects that gateways must have applied: each child, claim and connector, at the version in which the
    /// fields that gateways read last changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<ChildRevision>,
    /// When each stage was first reached, for the newest generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TunnelTimeline>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// An object at a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRevision {
    /// Gateway, HTTPRoute, EndpointSlice, HostnameClaim or Connector.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its resource version when the fields that gateways read last changed.
    pub version: String,
    /// A digest of the fields that gateways read.
    pub digest: String,
}

/// One hostname.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostnameStatus {
    /// The hostname.
    pub hostname: String,
    /// Whether this tunnel may serve it.
    pub accepted: bool,
    /// Why it was not accepted, or how it was verified.
    pub reason: String,
}

/// When each stage was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TunnelTimeline {
    /// The generation that this timeline describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When the operator first saw this spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<MicroTime>,
    /// When the spec was accepted and its hostnames were claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<MicroTime>,
    /// When its children were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children_written: Option<MicroTime>,
    /// When every live gateway had acknowledged them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programmed: Option<MicroTime>,
    /// When a signed nonce had been returned through every live gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven: Option<MicroTime>,
}
