//! Tunnels: `HTTPProxy`, `Connector`, `ConnectorClass`, and the two kinds that only Aplomb's programs
//! write, `HostnameClaim` and `GatewayReplica`.

mod connector;
mod constants;
mod proxy;
mod replica;
mod route;
mod schema;
mod status;
mod validation;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use connector::{
    ConnectionDetails, Connector, ConnectorSpec, ConnectorStatus, EndpointAddress, LeaseRef, PublicKey,
};
pub use constants::{
    CLASS, CONTROLLER, annotations, canonical_hostname, canonical_label, conditions, headers, is_canonical, labels,
    reasons, split_canonical,
};
pub use proxy::{
    Backend, BackendTls, ConnectorRef, EndpointSliceRef, HttpProxy, HttpProxySpec, ListenerTls, ProxyRule,
};
pub use replica::{AppliedVersions, GatewayReplica, GatewayReplicaSpec, LostSession, QuarantinedRoute};
pub use route::{
    HeaderMatch, HeaderModifier, HeaderValue, HttpMethod, PathMatch, PathMatchType, PathModifier, PathModifierType,
    QueryMatch, RequestRedirect, RouteFilter, RouteFilterType, RouteMatch, UrlRewrite, ValueMatchType,
};
pub use status::{ChildRevision, HostnameStatus, HttpProxyStatus, TunnelTimeline};

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

/// The claim of one HTTPProxy on the hostname it is named after. The operator writes it.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "HostnameClaim",
    plural = "hostnameclaims",
    derive = "PartialEq",
    doc = "The claim of one HTTPProxy on the hostname it is named after. The operator writes it.",
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.claimant.namespace"),
    printcolumn(name = "HTTPProxy", type_ = "string", json_path = ".spec.claimant.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = validation::CLAIM_STAYS)]
#[serde(rename_all = "camelCase")]
pub struct HostnameClaimSpec {
    /// The claimant.
    pub claimant: Claimant,
}

/// An HTTPProxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claimant {
    /// Its namespace.
    #[schemars(schema_with = "schema::label")]
    pub namespace: String,
    /// Its name.
    #[schemars(schema_with = "schema::label")]
    pub name: String,
    /// Its UID. A claim is void once the object with this UID is gone.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}
