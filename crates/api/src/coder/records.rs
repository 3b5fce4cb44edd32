//! What is written down before and after each effect on the server, so that a crash loses nothing. Times
//! are the moments of events, never of the last look.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use super::shared::SecretKeyRef;

/// Which server something is on, and which token is sent there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerBinding {
    /// The server.
    #[serde(rename = "serverURL")]
    pub server_url: String,
    /// The CoderControlPlane that named both the server and the token. Without one the Secret must name
    /// the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<String>,
    /// The authorities that its certificate may be signed by, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Where the token was read.
    #[schemars(schema_with = "schema::known_key")]
    pub token_secret_ref: SecretKeyRef,
    /// What tells that token from others without being one: a token of another fingerprint was not
    /// meant for this server.
    pub token_fingerprint: String,
}

/// A key that is about to be made, or that is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// Its name at the server.
    pub name: String,
    /// Its id, once the server has told.
    #[serde(rename = "id", default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The organisation's id.
    #[serde(rename = "organizationID")]
    pub organization_id: String,
    /// The organisation's name, as the spec had it.
    pub organization_name: String,
    /// Of the tags it was made with: they cannot be changed.
    pub tags_hash: String,
    /// When it was asked for.
    pub since: Time,
    /// Where it is.
    pub binding: ServerBinding,
}

/// A key that is to be deleted once nobody uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetiringKey {
    /// The key.
    #[serde(flatten)]
    pub key: KeyRecord,
    /// Since when it is being replaced.
    pub retired: Time,
    /// Since when its successor has every daemon that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Time>,
    /// Whether a daemon may hold it. One whose plaintext nobody ever had goes at once.
    #[serde(default)]
    pub used: bool,
}

/// How rotations stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RotationStatus {
    /// How many names were used after the first.
    #[schemars(extend("format" = "int32"))]
    pub sequence: u32,
    /// The value of the annotation `coder.aplomb.dev/rotate` that the pending key was written down for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The value of that annotation that was last carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub honoured: Option<String>,
    /// Why the last one happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When its new key was in the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Time>,
}

/// The server refuses for its rate limit. Written once, when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimited {
    /// Since when.
    pub since: Time,
    /// Which call it refused.
    pub endpoint: String,
    /// Nothing is sent before this, by whatever process.
    pub not_before: Time,
}
