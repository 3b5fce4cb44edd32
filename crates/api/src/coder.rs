//! Coder's provisioners and workspace proxies: the specs that users write, and the status of each.
//!
//! Records are written before and after each change on the server, so that a crash loses nothing. Their times are those of
//! events, not of the last check, so an unchanged state gives an unchanged status.

mod constants;
mod provisioner;
mod proxy;
mod schema;
mod validation;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use constants::{
    FINALIZER, MAX_NAME_LENGTH, MAX_PROXY_NAME_LENGTH, RESERVED_KEY_NAMES, TOKEN_FINALIZER, annotations, conditions,
    has_owner_suffix, is_owned_key_name, key_name, labels, owner_suffix, proxy_name, reasons, truncate_name,
    unsuffixed_key_name,
};
pub use provisioner::{CoderProvisioner, CoderProvisionerSpec, CoderProvisionerStatus, KeySpec};
pub use proxy::{
    CoderWorkspaceProxy, CoderWorkspaceProxySpec, CoderWorkspaceProxyStatus, PendingProxy, ProxyBootstrap,
    ProxyServiceSpec, RetiringProxy,
};

/// A `CoderControlPlane` of `coder.com/v1alpha1` in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ControlPlaneRef {
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
}

/// A coderd server, given directly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoderServerRef {
    /// Its URL, like `https://coder.example.com`.
    #[schemars(schema_with = "schema::url")]
    pub url: String,
    /// The certificate authorities trusted for the server's certificate, as PEM, in addition to those of the system.
    /// Pods get them as SSL_CERT_FILE, in addition to the certificate directories of their image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ca_bundle")]
    pub ca_bundle: Option<String>,
    /// The token that authenticates the operator to the server.
    pub token_secret_ref: SecretKeyRef,
}

/// One value of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct SecretKeyRef {
    /// The name of the Secret.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The key in it.
    #[serde(default = "default_key")]
    #[schemars(schema_with = "schema::data_key")]
    pub key: String,
}

fn default_key() -> String {
    "token".to_owned()
}

/// A server, and the token used to authenticate to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerBinding {
    /// The server.
    #[serde(rename = "serverURL")]
    pub server_url: String,
    /// The CoderControlPlane that named both the server and the token. If unset, the Secret must name the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<String>,
    /// The certificate authorities trusted for the server's certificate, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// The Secret the token was read from.
    #[schemars(schema_with = "schema::known_key")]
    pub token_secret_ref: SecretKeyRef,
    /// A digest that identifies the token. A token with another fingerprint is not sent to this server.
    pub token_fingerprint: String,
}

/// A key that is in use or about to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// Its name on the server.
    pub name: String,
    /// Its id, once the server has returned it.
    #[serde(rename = "id", default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The organization's id.
    #[serde(rename = "organizationID")]
    pub organization_id: String,
    /// The organization's name, as in the spec.
    pub organization_name: String,
    /// A hash of the tags it was created with. Tags of a key cannot be changed.
    pub tags_hash: String,
    /// When it was requested.
    pub since: Time,
    /// The server.
    pub binding: ServerBinding,
}

/// A key to be deleted once no daemon uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetiringKey {
    /// The key.
    #[serde(flatten)]
    pub key: KeyRecord,
    /// When its replacement began.
    pub retired: Time,
    /// When all daemons were connected with the next key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Time>,
    /// Whether a daemon may hold it. A key whose plaintext was never stored is deleted at once.
    #[serde(default)]
    pub used: bool,
}

/// The state of rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RotationStatus {
    /// The number of key names used after the first.
    #[schemars(extend("format" = "int32"))]
    pub sequence: u32,
    /// The value of the annotation `coder.aplomb.dev/rotate` that the pending key was recorded for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The last value of that annotation that was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub honoured: Option<String>,
    /// The reason of the last rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the new key was written to the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Time>,
}

/// The server rejects calls because of its rate limit. Recorded once, when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimited {
    /// Since when.
    pub since: Time,
    /// The call that was rejected.
    pub endpoint: String,
    /// Earliest time for the next call, in any process.
    pub not_before: Time,
}
