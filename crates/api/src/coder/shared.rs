//! What both kinds say of the server they belong to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A `CoderControlPlane` of `coder.com/v1alpha1` in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A coderd, named outright.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Where it is, like `https://coder.example.com`.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The authorities that its certificate may be signed by besides those of the machine, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    pub ca_bundle: Option<String>,
    /// The token that speaks for the operator there.
    pub token_secret_ref: SecretKeyRef,
}

/// One value of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[serde(default = "token")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn token() -> String {
    "token".to_owned()
}
