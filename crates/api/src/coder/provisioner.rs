//! Daemons that run the jobs of one organization, with a key of their own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CoderServerRef, ControlPlaneRef, KeyRecord, RateLimited, RetiringKey, RotationStatus, SecretKeyRef, schema,
    validation,
};
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
    printcolumn(name = "Daemons", type_ = "string", json_path = ".status.daemons"),
    printcolumn(name = "Key", type_ = "string", json_path = ".status.provisionerKeyName"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Organization", type_ = "string", json_path = ".status.organizationName", priority = 1),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.controlPlaneURL", priority = 1),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", priority = 1),
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
    /// The server, given directly. Either this or `controlPlaneRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::given::<CoderServerRef>")]
    pub server: Option<CoderServerRef>,
    /// The organization whose jobs the daemons run.
    #[serde(default = "default_organization_name")]
    #[schemars(schema_with = "schema::organization")]
    pub organization_name: String,
    /// The key.
    #[serde(default)]
    pub key: KeySpec,
    /// The number of daemons.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// The tags of the daemons. They take only jobs with matching tags. Changing tags makes a new key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::tags")]
    pub tags: BTreeMap<String, String>,
    /// The image of the daemons. Default: the image of the CoderControlPlane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image")]
    pub image: Option<String>,
    /// Additional arguments of `coder provisioner start`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::provisioner_args")]
    pub extra_args: Vec<String>,
    /// Additional environment variables of the daemons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::provisioner_env")]
    pub extra_env: Vec<EnvVar>,
    /// The resources of a daemon's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Secrets to pull the image with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::pull_secrets")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How long a daemon may take to finish its job when its pod is stopped.
    #[serde(default = "default_termination_grace_period_seconds")]
    #[schemars(range(min = 0, max = 86_400))]
    pub termination_grace_period_seconds: i64,
    /// Whether to send the header that exempts the operator's calls from the server's rate limit. Works only
    /// with an owner's token.
    #[serde(default)]
    pub bypass_rate_limit: bool,
    /// How long a deletion waits for the server. After that the key is left on the server and reported.
    #[serde(default = "default_deletion_deadline")]
    #[x_kube(validation = validation::DELETION_DEADLINE)]
    pub deletion_deadline: DurationString,
}

/// The key of the daemons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeySpec {
    /// The name of the first key; later keys get a number. Default: the name of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::key_name")]
    pub name: Option<String>,
    /// The Secret that holds the key. Default: the name of this object followed by `-provisioner-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub secret_name: Option<String>,
    /// The key in the Secret. Default: `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::key_data")]
    pub secret_key: Option<String>,
    /// Maximum age of a key. Unset: keys are not rotated by age.
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

/// The observed state of a CoderProvisioner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CoderProvisionerStatus {
    /// `Pending` or `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// Daemons connected to the server with this object's keys (at most the number in the spec), and the
    /// number in the spec, like `2/3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemons: Option<String>,
    /// The CoderControlPlane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref_name: Option<String>,
    /// The server.
    #[serde(rename = "controlPlaneURL", skip_serializing_if = "Option::is_none")]
    pub control_plane_url: Option<String>,
    /// The organization's id.
    #[serde(rename = "organizationID", skip_serializing_if = "Option::is_none")]
    pub organization_id: Option<String>,
    /// The organization's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization_name: Option<String>,
    /// The id of the key in use.
    #[serde(rename = "provisionerKeyID", skip_serializing_if = "Option::is_none")]
    pub provisioner_key_id: Option<String>,
    /// The name of the key in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioner_key_name: Option<String>,
    /// A hash of the tags of the key in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags_hash: Option<String>,
    /// The Secret that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::known_key")]
    pub secret_ref: Option<SecretKeyRef>,
    /// The key in use, its server and when it was created. The fields above repeat the main parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyRecord>,
    /// The key about to be created, recorded before the request is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<KeyRecord>,
    /// Keys to be deleted once no daemon uses them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retiring: Vec<RetiringKey>,
    /// The state of key rotation.
    pub rotation: RotationStatus,
    /// Set while the server rejects calls because of its rate limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited: Option<RateLimited>,
    /// Since when daemons that should be connected are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnected_since: Option<Time>,
    /// When pods that did not connect were last restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarted: Option<Time>,
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
