//! The claim on a hostname. Its name is the hostname, so that only one claim per hostname can exist.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{schema, validation};

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
