//! A workspace proxy: traffic to workspaces takes it instead of the primary server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::records::{RateLimited, RotationStatus, ServerBinding};
use super::shared::{CoderServerRef, ControlPlaneRef, SecretKeyRef};
use super::{validation, schema};
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
    printcolumn(
        name = "Registered",
        type_ = "boolean",
        json_path = ".status.registered"
    ),
    printcolumn(
        name = "Proxy",
        type_ = "string",
        json_path = ".status.proxyName"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".status.binding.serverURL",
        priority = 1
    ),
    validation = validation::PROXY_OBJECT_NAME,
    validation = validation::PROXY_SECRET_USUAL
)]
#[x_kube(validation = validation::PROXY_EITHER, validation = validation::PROXY_TOGETHER)]
#[serde(rename_all = "camelCase")]
pub struct CoderWorkspaceProxySpec {
    /// The image of the proxy. Default: that of the CoderControlPlane, if one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image")]
    pub image: Option<String>,
    /// How many pods.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// The Service before them.
    #[serde(default)]
    pub service: ProxyServiceSpec,
    /// The primary server, where the proxy was registered by somebody else; with
    /// `proxySessionTokenSecretRef`. Either these or `bootstrap`.
    #[serde(
        rename = "primaryAccessURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::url")]
    pub primary_access_url: Option<String>,
    /// The proxy's own token, where somebody else registered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<SecretKeyRef>")]
    pub proxy_session_token_secret_ref: Option<SecretKeyRef>,
    /// Registers the proxy at a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<ProxyBootstrap>")]
    pub bootstrap: Option<ProxyBootstrap>,
    /// Whether it relays connections only.
    #[serde(default)]
    pub derp_only: bool,
    /// More arguments of `coder wsproxy server`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::proxy_args")]
    pub extra_args: Vec<String>,
    /// More environment of the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::proxy_env")]
    pub extra_env: Vec<EnvVar>,
    /// What a pod may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Secrets to fetch the image with.
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
    /// The server, named outright. Either this or `controlPlaneRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<CoderServerRef>")]
    pub server: Option<CoderServerRef>,
    /// The proxy's name at the server. Default: the name of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::proxy_name")]
    pub proxy_name: Option<String>,
    /// What people see. Default: the proxy's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::display_name")]
    pub display_name: Option<String>,
    /// The icon, as a path or URL. Default: `/emojis/1f310.png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::icon")]
    pub icon: Option<String>,
    /// The Secret that holds the proxy's token. Default: the name of this object and `-proxy-token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub generated_token_secret_name: Option<String>,
    /// Whether to ask the server not to count our calls, which only an owner's token may.
    #[serde(default)]
    pub bypass_rate_limit: bool,
    /// How long a deletion waits for the server before the proxy is left behind and reported.
    #[serde(default = "default_deletion_deadline")]
    #[x_kube(validation = validation::DELETION_DEADLINE)]
    pub deletion_deadline: DurationString,
}

/// The Service before the pods.
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

/// What is known of a CoderWorkspaceProxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CoderWorkspaceProxyStatus {
    /// `Pending` or `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How many pods are ready.
    pub ready_replicas: i32,
    /// Whether the server knows it.
    pub registered: bool,
    /// The proxy's name at the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_name: Option<String>,
    /// The proxy's id at the server.
    #[serde(rename = "proxyID", skip_serializing_if = "Option::is_none")]
    pub proxy_id: Option<String>,
    /// What the server was last told of its looks: name, display name and icon, hashed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub described: Option<String>,
    /// The name that is about to be registered: written before the server is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingProxy>,
    /// Where it is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<ServerBinding>,
    /// Registrations that are to be taken back: of an earlier server or name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retiring: Vec<RetiringProxy>,
    /// Where the token is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::known_key")]
    pub proxy_token_secret_ref: Option<SecretKeyRef>,
    /// How rotations stand.
    pub rotation: RotationStatus,
    /// The server refuses for its rate limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited: Option<RateLimited>,
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

/// A registration that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingProxy {
    /// The name.
    pub name: String,
    /// When it was asked for.
    pub since: Time,
    /// Where.
    pub binding: ServerBinding,
}

/// A registration that is to be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetiringProxy {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// Since when.
    pub retired: Time,
    /// Where.
    pub binding: ServerBinding,
}
