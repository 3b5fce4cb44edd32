//! The spec of a tunnel: hostnames, and where their requests go.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::constants::CLASS;
use super::route::{RouteFilter, RouteMatch};
use super::status::HttpProxyStatus;
use super::{schema, validation};
use crate::duration::DurationString;

/// A tunnel: public hostnames whose requests go to a local service behind a connector.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "HTTPProxy",
    root = "HttpProxy",
    plural = "httpproxies",
    shortname = "hp",
    category = "aplomb",
    namespaced,
    status = "HttpProxyStatus",
    derive = "PartialEq",
    doc = "A tunnel: public hostnames whose requests go to a local service behind a connector.",
    printcolumn(name = "Hostname", type_ = "string", json_path = ".status.hostname"),
    printcolumn(name = "Connector", type_ = "string", json_path = ".status.connector"),
    printcolumn(
        name = "Programmed",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Programmed')].status"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = validation::PROXY_NAME
)]
#[serde(rename_all = "camelCase")]
pub struct HttpProxySpec {
    /// The class. Its base domain is the domain of the platform's hostname.
    #[serde(default = "default_connector_class_name")]
    #[schemars(schema_with = "schema::name")]
    pub connector_class_name: String,
    /// Custom hostnames, in addition to the one the platform assigns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::hostnames")]
    pub hostnames: Vec<String>,
    /// Where requests go. Precedence between rules is that of the Gateway API.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = validation::RULES_NAMES, validation = validation::RULES_MATCHES)]
    pub rules: Vec<ProxyRule>,
    /// The certificate of the hostnames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// How often the tunnel is proven when nothing changed.
    #[serde(default = "default_proof_interval")]
    #[x_kube(validation = validation::PROOF_INTERVAL)]
    pub proof_interval: DurationString,
}

fn default_connector_class_name() -> String {
    CLASS.to_owned()
}

fn default_proof_interval() -> DurationString {
    DurationString::from_secs(10)
}

/// The certificate of the public hostnames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// A Secret of type kubernetes.io/tls in the namespace of the HTTPProxy.
    #[schemars(schema_with = "schema::name")]
    pub secret_name: String,
}

/// Matches for requests, and where the matching requests go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = validation::RULE_BACKEND,
    validation = validation::RULE_REDIRECT,
    validation = validation::RULE_PREFIX,
    validation = validation::RULE_BACKEND_PREFIX
)]
#[serde(rename_all = "camelCase")]
pub struct ProxyRule {
    /// A name, for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub name: Option<String>,
    /// The requests that match, by any of these. If empty, all requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub matches: Vec<RouteMatch>,
    /// Filters for the requests, each type at most once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(validation = validation::FILTERS_EITHER, validation = validation::FILTERS_ONCE)]
    pub filters: Vec<RouteFilter>,
    /// Where the requests go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1))]
    pub backends: Vec<Backend>,
    /// How long a response may take to begin, counted from the first byte of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = validation::TIMEOUT)]
    pub timeout: Option<DurationString>,
}

/// Where requests go: a URL that a connector dials, a URL that the gateway dials, or an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = validation::BACKEND_ONE,
    validation = validation::BACKEND_ADDRESS,
    validation = validation::BACKEND_LOOPBACK,
    validation = validation::BACKEND_DOMAIN,
    validation = validation::BACKEND_TLS_NAME,
    validation = validation::BACKEND_TLS_USED
)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// http://host:port or https://host:port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::endpoint")]
    pub endpoint: Option<String>,
    /// The connector that dials it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connector: Option<ConnectorRef>,
    /// An EndpointSlice of the same namespace instead of an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<EndpointSliceRef>,
    /// TLS settings for an https endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BackendTls>,
    /// Filters for the requests to this backend, each type at most once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(validation = validation::FILTERS_BACKEND, validation = validation::FILTERS_ONCE)]
    pub filters: Vec<RouteFilter>,
}

/// A Connector of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ConnectorRef {
    /// Its name.
    #[schemars(schema_with = "schema::label")]
    pub name: String,
}

/// An EndpointSlice of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct EndpointSliceRef {
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The port.
    #[schemars(range(min = 1, max = 65535), extend("format" = "int32"))]
    pub port: u16,
}

/// TLS settings for an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct BackendTls {
    /// The name its certificate must have. Default: the host of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host")]
    pub hostname: Option<String>,
}
