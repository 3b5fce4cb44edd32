//! Settings of an administrator for the agents of a cluster.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::constants::CONTROLLER;
use super::schema;

/// What connectors of a class use and accept.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "ConnectorClass",
    plural = "connectorclasses",
    shortname = "cc",
    category = "aplomb",
    derive = "PartialEq",
    doc = "What connectors of a class use and accept.",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.domain"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorClassSpec {
    /// The controller that serves this class.
    #[serde(default = "default_controller_name")]
    #[schemars(length(min = 1, max = 253))]
    pub controller_name: String,
    /// The base domain of the platform's hostnames. Default: the operator's domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::domain")]
    pub domain: Option<String>,
    /// Relays, used if no direct path is found. If empty, only direct addresses are used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::relays")]
    pub relays: Vec<String>,
    /// The gateways that agents may accept, by iroh endpoint id in hex. If empty, the gateways that are
    /// registered in the operator's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::endpoint_ids")]
    pub gateways: Vec<String>,
    /// Networks that gateways may dial for backends without a connector although they are not public, such as
    /// the networks of Pods, Services or a data center. Cloud metadata services are never dialed. The port of a
    /// kubelet is dialed only if its address is listed on its own (/32 or /128).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::networks")]
    pub backend_networks: Vec<String>,
}

fn default_controller_name() -> String {
    CONTROLLER.to_owned()
}
