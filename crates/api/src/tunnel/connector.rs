//! An agent, as recorded in the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constants::CLASS;
use super::{schema, validation};

/// An agent that dials local services for tunnels.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "Connector",
    plural = "connectors",
    shortname = "conn",
    category = "aplomb",
    namespaced,
    status = "ConnectorStatus",
    derive = "PartialEq",
    doc = "An agent that dials local services for tunnels.",
    printcolumn(name = "Online", type_ = "string", json_path = ".status.conditions[?(@.type=='Online')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Online')].reason"),
    printcolumn(name = "Last-Seen", type_ = "date", json_path = ".status.lastSeen"),
    printcolumn(name = "Offline-Since", type_ = "date", json_path = ".status.offlineSince"),
    printcolumn(name = "Agent", type_ = "string", json_path = ".status.connectionDetails.agentVersion"),
    printcolumn(name = "Device", type_ = "string", json_path = ".status.connectionDetails.device"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = validation::CONNECTOR_NAME
)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorSpec {
    /// The class. It sets the relays that the agent uses and the gateways that it accepts.
    #[serde(default = "default_connector_class_name")]
    #[schemars(schema_with = "schema::name")]
    pub connector_class_name: String,
    /// How long after its last heartbeat the agent counts as offline.
    #[serde(default = "default_lease_duration_seconds")]
    #[schemars(range(min = 3, max = 3600))]
    pub lease_duration_seconds: i32,
}

fn default_connector_class_name() -> String {
    CLASS.to_owned()
}

fn default_lease_duration_seconds() -> i32 {
    30
}

/// The observed state of a Connector. The agent writes `connectionDetails`, the operator everything else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectorStatus {
    /// How the agent is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_details: Option<ConnectionDetails>,
    /// The Lease that its heartbeats renew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ref: Option<LeaseRef>,
    /// The gateways it may accept, by iroh endpoint id in hex, sorted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateways: Option<Vec<String>>,
    /// The relays it should use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relays: Option<Vec<String>>,
    /// The time of its last heartbeat before the last change of `Online`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Time>,
    /// Since when it is offline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_since: Option<Time>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How an agent is reached, as the agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionDetails {
    /// Its key and addresses.
    pub public_key: PublicKey,
    /// A random string that identifies one run of the agent. Proofs are bound to it.
    #[schemars(length(min = 1, max = 64))]
    pub session: String,
    /// The agent's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub agent_version: Option<String>,
    /// The device it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub device: Option<String>,
}

/// An iroh endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublicKey {
    /// The endpoint id: 32 bytes in hex.
    #[schemars(schema_with = "schema::endpoint_id")]
    pub id: String,
    /// The relay it can be reached through, if it uses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub home_relay: Option<String>,
    /// The addresses where it can be reached directly, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub addresses: Vec<EndpointAddress>,
}

/// A UDP socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct EndpointAddress {
    /// The IP address.
    #[schemars(schema_with = "schema::ip")]
    pub address: String,
    /// The port.
    #[schemars(range(min = 1, max = 65535), extend("format" = "int32"))]
    pub port: u16,
}

/// The Lease of a Connector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseRef {
    /// Its name, in the namespace of the Connector.
    pub name: String,
    /// The renew time it had at the last change of `Online`. If it is unchanged when an operator
    /// starts, the Lease was not renewed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<MicroTime>,
}
