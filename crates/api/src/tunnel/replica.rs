//! One gateway process, and what it serves. It writes its own and nobody else does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One gateway process, what it serves and when it was last alive: a record of itself, like a Lease, so
/// that heartbeat and acknowledgement are one write.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "GatewayReplica",
    plural = "gatewayreplicas",
    shortname = "gwr",
    category = "aplomb",
    namespaced,
    derive = "PartialEq",
    doc = "One gateway process, what it serves and when it was last alive. It writes this itself.",
    printcolumn(name = "Listen", type_ = "string", json_path = ".spec.listen"),
    printcolumn(name = "Tunnels", type_ = "integer", json_path = ".spec.tunnels"),
    printcolumn(name = "Renewed", type_ = "date", json_path = ".spec.renewTime"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReplicaSpec {
    /// Where this replica's public HTTP listener is reached: ip:port.
    pub listen: String,
    /// Where its public TLS listener is reached: ip:port.
    #[serde(rename = "listenTLS", default, skip_serializing_if = "Option::is_none")]
    pub listen_tls: Option<String>,
    /// Its iroh endpoint id in hex.
    #[serde(rename = "endpointID")]
    pub endpoint_id: String,
    /// How long after its last heartbeat it counts as gone.
    pub lease_duration_seconds: i32,
    /// Its last heartbeat, by its own clock. Readers compare it only with itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<MicroTime>,
    /// The newest resource version of each kind that its routing table takes into account.
    #[serde(default)]
    pub applied: Applied,
    /// How many tunnels it serves.
    #[serde(default)]
    pub tunnels: i32,
    /// Routes it had to leave out, the first 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<Quarantined>,
    /// Connectors with tunnels to which it has no session now, the first 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostSession>,
}

/// Resource versions, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "each is the version of its kind")]
pub struct Applied {
    pub gateways: String,
    #[serde(rename = "httpRoutes")]
    pub http_routes: String,
    pub endpoint_slices: String,
    pub connectors: String,
    pub secrets: String,
    pub claims: String,
}

/// A route that is not served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Quarantined {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A connector that cannot be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LostSession {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which life of the agent could not be reached.
    pub session: String,
}
