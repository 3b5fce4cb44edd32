//! A workspace proxy: it relays traffic to workspaces in place of the primary server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CoderServerRef, ControlPlaneRef, RateLimited, RotationStatus, SecretKeyRef, ServerBinding, schema, validation,
};
use crate::duration::DurationString;

/// A workspace proxy of a Coder deployment.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "CoderWorkspaceProxy",
    plural = "coderworkspaceproxies",
    shortname = "cwp",
    category = "aplomb",
    namespaced,
    status = "CoderWorkspaceProxyStatus",
    derive = "PartialEq",
    doc = "A workspace proxy of a Coder deployment.",
    printcolumn(name = "Registered", type_ = "boolean", json_path = ".status.registered"),
    printcolumn(name = "Proxy", type_ = "string", json_path = ".status.proxyName"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.binding.serverURL", priority = 1),
    validation = validation::PROXY_OBJECT_NAME,
    validation = validation::PROXY_SECRET_USUAL
)]
#[x_kube(validation = validation::PROXY_EITHER, validation = validation::PROXY_TOGETHER)]
#[serde(rename_all = "camelCase")]
pub struct CoderWorkspaceProxySpec {
    /// The image of the proxy. Default: the image of the CoderControlPlane, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image")]
    pub image: Option<String>,
    /// The number of pods.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// The Service in front of the pods.
    #[serde(default)]
    pub service: ProxyServiceSpec,
    /// The URL of the primary server, for a proxy that is already registered. Requires
    /// `proxySessionTokenSecretRef`. Either these two or `bootstrap`.
    #[serde(rename = "primaryAccessURL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::url")]
    pub primary_access_url: Option<String>,
    /// The token of a proxy that is already registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<SecretKeyRef>")]
    pub proxy_session_token_secret_ref: Option<SecretKeyRef>,
    /// Registers the proxy with a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<ProxyBootstrap>")]
    pub bootstrap: Option<ProxyBootstrap>,
    /// Whether the proxy only relays connections (DERP) and serves no workspace apps.
    #[serde(default)]
    pub derp_only: bool,
    /// Additional arguments of `coder wsproxy server`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::proxy_args")]
    pub extra_args: Vec<String>,
    /// Additional environment variables of the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::proxy_env")]
    pub extra_env: Vec<EnvVar>,
    /// The resources of a proxy's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Secrets to pull the image with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::pull_secrets")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
}

/// How the proxy is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = validation::ONE_SERVER, validation = validation::PROXY_SECRET)]
#[serde(rename_all = "camelCase")]
pub struct ProxyBootstrap {
    /// The server, as a CoderControlPlane. Either this or `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<ControlPlaneRef>")]
    pub control_plane_ref: Option<ControlPlaneRef>,
    /// The server, given directly. Either this or `controlPlaneRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<CoderServerRef>")]
    pub server: Option<CoderServerRef>,
    /// The proxy's name on the server. Default: the name of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::proxy_name")]
    pub proxy_name: Option<String>,
    /// The name shown to users. Default: the proxy's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::display_name")]
    pub display_name: Option<String>,
    /// The icon, as a path or URL. Default: `/emojis/1f310.png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::icon")]
    pub icon: Option<String>,
    /// The Secret that holds the proxy's token. Default: the name of this object followed by `-proxy-token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub generated_token_secret_name: Option<String>,
    /// Whether to send the header that exempts the operator's calls from the server's rate limit. Works only
    /// with an owner's token.
    #[serde(default)]
    pub bypass_rate_limit: bool,
    /// How long a deletion waits for the server. After that the proxy is left on the server and reported.
    #[serde(default = "default_deletion_deadline")]
    #[x_kube(validation = validation::DELETION_DEADLINE)]
    pub deletion_deadline: DurationString,
}

/// The Service in front of the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProxyServiceSpec {
    /// `ClusterIP`, `NodePort` or `LoadBalancer`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schema::service_type")]
    pub type_: String,
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Annotations of the Service.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub annotations: BTreeMap<String, String>,
}

impl Default for ProxyServiceSpec {
    fn default() -> Self {
        Self {
            type_: "ClusterIP".to_owned(),
            port: 80,
            annotations: BTreeMap::new(),
        }
    }
}

fn default_replicas() -> i32 {
    1
}

fn default_deletion_deadline() -> DurationString {
    DurationString::from_secs(86_400)
}

/// The observed state of a CoderWorkspaceProxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CoderWorkspaceProxyStatus {
    /// `Pending` or `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// Whether the proxy is registered with the server.
    pub registered: bool,
    /// The proxy's name on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_name: Option<String>,
    /// The proxy's id on the server.
    #[serde(rename = "proxyID", skip_serializing_if = "Option::is_none")]
    pub proxy_id: Option<String>,
    /// A hash of the name, display name and icon last sent to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub described: Option<String>,
    /// The registration about to be made, recorded before the request is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingProxy>,
    /// The server where the proxy is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<ServerBinding>,
    /// Registrations to be deleted: those with an earlier server or name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retiring: Vec<RetiringProxy>,
    /// The Secret that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::known_key")]
    pub proxy_token_secret_ref: Option<SecretKeyRef>,
    /// The state of token rotation.
    pub rotation: RotationStatus,
    /// Set while the server rejects calls because of its rate limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited: Option<RateLimited>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A registration about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingProxy {
    /// The name.
    pub name: String,
    /// When it was requested.
    pub since: Time,
    /// The server.
    pub binding: ServerBinding,
}

/// A registration to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetiringProxy {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// When it was replaced.
    pub retired: Time,
    /// The server.
    pub binding: ServerBinding,
}
