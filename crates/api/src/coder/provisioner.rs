//! Daemons that run the jobs of one organisation, with a key of their own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::records::{KeyRecord, RateLimited, RetiringKey, RotationStatus};
use super::shared::{CoderServerRef, ControlPlaneRef, SecretKeyRef};
use super::{validation, schema};
use crate::duration::DurationString;

/// Provisioner daemons of a Coder deployment, and the key they connect with.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "aplomb.dev",
    version = "v1alpha1",
    kind = "CoderProvisioner",
    plural = "coderprovisioners",
    shortname = "cprov",
    category = "aplomb",
    namespaced,
    status = "CoderProvisionerStatus",
    derive = "PartialEq",
    doc = "Provisioner daemons of a Coder deployment, and the key they connect with.",
    printcolumn(
        name = "Daemons",
        type_ = "string",
        json_path = ".status.daemons"
    ),
    printcolumn(
        name = "Key",
        type_ = "string",
        json_path = ".status.provisionerKeyName"
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
        name = "Organization",
        type_ = "string",
        json_path = ".status.organizationName",
        priority = 1
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".status.controlPlaneURL",
        priority = 1
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        priority = 1
    ),
    validation = validation::OBJECT_RESERVED,
    validation = validation::KEY_SECRET_USUAL
)]
#[x_kube(validation = validation::ONE_SERVER, validation = validation::KEY_SECRET)]
#[serde(rename_all = "camelCase")]
pub struct CoderProvisionerSpec {
    /// The server, as a CoderControlPlane. Either this or `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<ControlPlaneRef>")]
    pub control_plane_ref: Option<ControlPlaneRef>,
    /// The server, named outright. Either this or `controlPlaneRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<CoderServerRef>")]
    pub server: Option<CoderServerRef>,
    /// The organisation whose jobs are run.
    #[serde(default = "default_organization_name")]
    #[schemars(schema_with = "schema::organization")]
    pub organization_name: String,
    /// The key.
    #[serde(default)]
    pub key: KeySpec,
    /// How many daemons.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// What jobs must ask for to be run here. Another set of tags needs another key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: BTreeMap<String, String>,
    /// The image of the daemons. Default: that of the CoderControlPlane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image")]
    pub image: Option<String>,
    /// More arguments of `coder provisioner start`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::provisioner_args")]
    pub extra_args: Vec<String>,
    /// More environment of the daemons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::provisioner_env")]
    pub extra_env: Vec<EnvVar>,
    /// What a daemon may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Secrets to fetch the image with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::pull_secrets")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How long a daemon may finish its job when its pod is stopped.
    #[serde(default = "default_termination_grace_period_seconds")]
    #[schemars(range(min = 0, max = 86_400))]
    pub termination_grace_period_seconds: i64,
    /// Whether to ask the server not to count our calls, which only an owner's token may.
    #[serde(default)]
    pub bypass_rate_limit: bool,
    /// How long a deletion waits for the server before the key is left behind and reported.
    #[serde(default = "default_deletion_deadline")]
    #[x_kube(validation = validation::DELETION_DEADLINE)]
    pub deletion_deadline: DurationString,
}

/// The key of the daemons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeySpec {
    /// The name of the first key; later ones get a number. Default: the name of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::key_name")]
    pub name: Option<String>,
    /// The Secret that holds the key. Default: the name of this object and `-provisioner-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub secret_name: Option<String>,
    /// The key in the Secret. Default: `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::key_data")]
    pub secret_key: Option<String>,
    /// How old a key may become before it is replaced. Never, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<DurationString>")]
    #[x_kube(validation = validation::ROTATE_AFTER)]
    pub rotate_after: Option<DurationString>,
}

fn default_organization_name() -> String {
    "default".to_owned()
}

fn default_replicas() -> i32 {
    1
}

fn default_termination_grace_period_seconds() -> i64 {
    600
}

fn default_deletion_deadline() -> DurationString {
    DurationString::from_secs(86_400)
}

/// What is known of a CoderProvisioner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CoderProvisionerStatus {
    /// `Pending` or `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How many pods are ready.
    pub ready_replicas: i32,
    /// How many daemons the server sees connected with keys of this object, at most as many as are wanted, and
    /// how many are wanted, as `2/3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemons: Option<String>,
    /// The CoderControlPlane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref_name: Option<String>,
    /// The server.
    #[serde(rename = "controlPlaneURL", skip_serializing_if = "Option::is_none")]
    pub control_plane_url: Option<String>,
    /// The organisation's id.
    #[serde(rename = "organizationID", skip_serializing_if = "Option::is_none")]
    pub organization_id: Option<String>,
    /// The organisation's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization_name: Option<String>,
    /// The id of the key in use.
    #[serde(rename = "provisionerKeyID", skip_serializing_if = "Option::is_none")]
    pub provisioner_key_id: Option<String>,
    /// The name of the key in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioner_key_name: Option<String>,
    /// Of the tags of the key in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags_hash: Option<String>,
    /// Where the key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::known_key")]
    pub secret_ref: Option<SecretKeyRef>,
    /// The key in use, with where it is and since when. The fields above repeat what people look for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyRecord>,
    /// The key that is about to be made: written before the server is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<KeyRecord>,
    /// Keys that go once nobody uses them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retiring: Vec<RetiringKey>,
    /// How rotations stand.
    pub rotation: RotationStatus,
    /// The server refuses for its rate limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited: Option<RateLimited>,
    /// Since when daemons are missing that should be connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected_since: Option<Time>,
    /// When pods that did not connect were last started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarted: Option<Time>,
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
