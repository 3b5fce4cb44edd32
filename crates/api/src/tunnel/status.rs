//! What the operator has seen of a tunnel. Nothing in it changes while nothing changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of an HTTPProxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpProxyStatus {
    /// The hostname to show: the first of one's own that is ours to serve, or the platform's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The hostname that the platform gives, from the UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical_hostname: Option<String>,
    /// Each hostname, and whether it is ours to serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["hostname"]
    ))]
    pub hostname_statuses: Vec<HostnameStatus>,
    /// The connectors it uses, for the eye.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
    /// The addresses of the live gateways' listeners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// What the gateways must have taken into account: each child, claim and connector at the version
    /// that last changed what they serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<ChildRevision>,
    /// When each stage was first reached, for the newest spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TunnelTimeline>,
    /// The generation of the spec this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
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
    /// Its resource version when what gateways read of it last changed.
    pub version: String,
    /// A digest of what gateways read of it.
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
    /// Why not, or how it was obtained.
    pub reason: String,
}

/// When each stage was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TunnelTimeline {
    /// The generation it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The operator first saw this spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<MicroTime>,
    /// It was found valid, and its hostnames were claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<MicroTime>,
    /// Its children were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children_written: Option<MicroTime>,
    /// Every live gateway had acknowledged them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programmed: Option<MicroTime>,
    /// A nonce had come back, signed, through every live gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven: Option<MicroTime>,
}
