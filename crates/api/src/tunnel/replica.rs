//! One gateway process, and what it serves. Only the process itself writes it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// One gateway process, what it serves and when it was last alive. The process writes it like a Lease:
/// heartbeat and acknowledgement are one write.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "GatewayReplica",
    plural = "gatewayreplicas",
    shortname = "gwr",
    category = "aplomb",
    namespaced,
    derive = "PartialEq",
    doc = "One gateway process, what it serves and when it was last alive. Written by the process.",
    printcolumn(name = "Listen", type_ = "string", json_path = ".spec.listen"),
    printcolumn(name = "Tunnels", type_ = "integer", json_path = ".spec.tunnels"),
    printcolumn(name = "Renewed", type_ = "date", json_path = ".spec.renewTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReplicaSpec {
    /// The address of the public HTTP listener: ip:port.
    #[schemars(schema_with = "schema::socket")]
    pub listen: String,
    /// The address of the public TLS listener: ip:port.
    #[serde(rename = "listenTLS", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::socket")]
    pub listen_tls: Option<String>,
    /// Its iroh endpoint id in hex.
    #[serde(rename = "endpointID")]
    #[schemars(schema_with = "schema::endpoint_id")]
    pub endpoint_id: String,
    /// How long after its last heartbeat the replica counts as gone.
    #[schemars(range(min = 1, max = 3600))]
    pub lease_duration_seconds: i32,
    /// Its last heartbeat, by its own clock. Compare it only with earlier values of the same replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<MicroTime>,
    /// The newest resource version of each kind that the routing table includes.
    #[serde(default)]
    pub applied: AppliedVersions,
    /// The relays through which it reaches agents. Other relays of a connector are not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::names")]
    pub relays: Option<Vec<String>>,
    /// The number of tunnels it serves.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub tunnels: i32,
    /// Routes it does not serve because of an error, the first 512.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub quarantined: Vec<QuarantinedRoute>,
    /// Connectors with tunnels but without a session now, the first 512.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    pub lost: Vec<LostSession>,
    /// The remaining routes it does not serve, as namespace/name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names")]
    pub more_quarantined: Vec<String>,
    /// The remaining connectors without a session now, as namespace/name/session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names")]
    pub more_lost: Vec<String>,
    /// Namespaces that have more of either than this record can hold, or `*`. Routes and connectors of them
    /// that are not listed are in an unknown state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::names")]
    pub incomplete: Vec<String>,
}

impl GatewayReplicaSpec {
    /// Every listed route that is not served: namespace, name and, for the first 512, the reason.
    pub fn quarantined_routes(&self) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
        let first = self.quarantined.iter();
        let first = first.map(|it| (&*it.namespace, &*it.name, Some(&*it.reason)));
        let more = self.more_quarantined.iter();
        first.chain(more.filter_map(|it| it.split_once('/').map(|(ns, name)| (ns, name, None))))
    }

    /// Every listed connector without a session: namespace, name and session.
    pub fn lost_sessions(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let first = self.lost.iter();
        let first = first.map(|it| (&*it.namespace, &*it.name, &*it.session));
        let more = self.more_lost.iter().filter_map(|it| {
            let (namespace, rest) = it.split_once('/')?;
            let (name, session) = rest.split_once('/')?;
            Some((namespace, name, session))
        });
        first.chain(more)
    }

    /// Whether a namespace may have more of them than are listed.
    #[must_use]
    pub fn is_incomplete(&self, namespace: &str) -> bool {
        // Older gateways and definitions have no relays either, and cut the list at 512.
        let cut = self.relays.is_none() && self.quarantined.len() >= 512;
        let mut all = self.incomplete.iter();
        cut || all.any(|it| it == namespace || it == "*")
    }
}

/// Resource versions, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedVersions {
    /// Of Gateways.
    #[schemars(length(max = 64))]
    pub gateways: String,
    /// Of HTTPRoutes.
    #[serde(rename = "httpRoutes")]
    #[schemars(length(max = 64))]
    pub http_routes: String,
    /// Of EndpointSlices.
    #[schemars(length(max = 64))]
    pub endpoint_slices: String,
    /// Of Connectors.
    #[schemars(length(max = 64))]
    pub connectors: String,
    /// Of Secrets.
    #[schemars(length(max = 64))]
    pub secrets: String,
    /// Of HostnameClaims.
    #[schemars(length(max = 64))]
    pub claims: String,
}

/// A route that is not served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedRoute {
    /// Its namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The error.
    #[schemars(length(max = 4096))]
    pub reason: String,
}

/// A connector without a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostSession {
    /// Its namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The session of the agent that could not be reached.
    #[schemars(length(max = 64))]
    pub session: String,
}
