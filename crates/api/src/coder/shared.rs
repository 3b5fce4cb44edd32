//! The server reference that both kinds share.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::schema;

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
    /// The certificate authorities trusted for the server's certificate, as PEM, in addition to those of the
    /// system. Pods get them as SSL_CERT_FILE, in addition to the certificate directories of their
    /// image.
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
