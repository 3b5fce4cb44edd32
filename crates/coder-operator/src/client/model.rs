//! The bodies of coderd's API, as far as they are read. What the server adds is ignored, what it leaves
//! out or sends as null has a default.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the server is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BuildInfo {
    /// Such as `v2.36.1+0d2d1c8`.
    pub version: String,
}

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CoderUser {
    /// The id, by which the server counts.
    pub id: String,
}

/// An organisation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Organization {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// A provisioner key, without its plaintext, which is told once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProvisionerKey {
    /// Its id.
    pub id: String,
    /// When it was made, by the server's clock.
    pub created_at: Timestamp,
    /// Its name, in lower case.
    pub name: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Option<BTreeMap<String, String>>,
}

impl ProvisionerKey {
    /// Its id, if the server has told it: the answer to its making does not.
    #[must_use]
    pub fn known_id(&self) -> Option<String> {
        Some(self.id.clone()).filter(|id| !id.is_empty())
    }
}

/// A key and the daemons that are connected with it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProvisionerKeyDaemons {
    /// The key.
    pub key: ProvisionerKey,
    /// The daemons that were seen within three heartbeats.
    #[serde(default)]
    pub daemons: Option<Vec<ProvisionerDaemon>>,
}

/// A connected daemon.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProvisionerDaemon {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `offline`, `idle`, `busy`, or nothing.
    #[serde(default)]
    pub status: Option<String>,
    /// When it was last heard of, by the server's clock.
    #[serde(default)]
    pub last_seen_at: Option<Timestamp>,
}

/// What a licence says of one feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entitlement {
    /// It may be used.
    Entitled,
    /// It may be used for some time yet.
    GracePeriod,
    /// It may not.
    #[default]
    #[serde(other)]
    NotEntitled,
}

/// One feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Feature {
    /// What the licence says.
    #[serde(default)]
    pub entitlement: Entitlement,
    /// Whether it is switched on.
    #[serde(default)]
    pub enabled: bool,
}

/// What the licence allows of what the operator needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Licence")]
pub struct Entitlements {
    /// Provisioner daemons outside of the server, with keys.
    pub provisioners: Feature,
    /// Workspace proxies.
    pub proxies: Feature,
}

#[derive(Deserialize)]
struct Licence {
    features: Features,
}

#[derive(Deserialize)]
struct Features {
    #[serde(default)]
    external_provisioner_daemons: Feature,
    #[serde(default)]
    workspace_proxy: Feature,
}

impl From<Licence> for Entitlements {
    fn from(licence: Licence) -> Self {
        Self {
            provisioners: licence.features.external_provisioner_daemons,
            proxies: licence.features.workspace_proxy,
        }
    }
}

/// A workspace proxy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WorkspaceProxy {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What people see.
    #[serde(default)]
    pub display_name: String,
    /// Its icon.
    #[serde(default, rename = "icon_url")]
    pub icon: String,
    /// When it was made, by the server's clock.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// Whether it was deleted: by its id the server shows it all the same.
    #[serde(default)]
    pub deleted: bool,
    /// How it is.
    #[serde(default)]
    pub status: Option<WorkspaceProxyHealth>,
}

/// How a workspace proxy is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct WorkspaceProxyHealth {
    /// `ok`, `unreachable`, `unhealthy`, `unregistered`, or `unknown` of one that was deleted.
    #[serde(default)]
    pub status: String,
}

/// A new key's plaintext. Cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CreatedKey(pub(crate) String);

impl CreatedKey {
    /// For the Secret, and nothing else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewKey")
    }
}

/// A registered proxy and its new token. The token cannot be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedProxy {
    /// The proxy.
    pub proxy: WorkspaceProxy,
    /// Its token, unless the old one stays.
    pub token: Option<CreatedKey>,
}

/// What people see of a workspace proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProxyDisplay {
    /// Its name.
    pub name: String,
    /// What people see.
    pub display_name: String,
    /// Its icon.
    pub icon: String,
}

#[derive(Serialize)]
pub(super) struct CreateKeyRequest<'a> {
    pub(super) name: &'a str,
    pub(super) tags: &'a BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct CreateKeyResponse {
    pub(super) key: String,
}

#[derive(Serialize)]
pub(super) struct ProxyPatch<'a> {
    pub(super) id: &'a str,
    #[serde(flatten)]
    pub(super) looks: &'a ProxyDisplay,
    pub(super) regenerate_token: bool,
}

#[derive(Deserialize)]
pub(super) struct CreateProxyResponse {
    pub(super) proxy: WorkspaceProxy,
    #[serde(default)]
    pub(super) proxy_token: String,
}

#[derive(Deserialize)]
pub(super) struct Regions {
    #[serde(default)]
    pub(super) regions: Option<Vec<WorkspaceProxy>>,
}

/// Why something was refused.
#[derive(Deserialize)]
pub(super) struct CoderErrorBody {
    #[serde(default)]
    message: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    validations: Option<Vec<Validation>>,
}

#[derive(Deserialize)]
struct Validation {
    #[serde(default)]
    field: String,
    #[serde(default)]
    detail: String,
}

impl CoderErrorBody {
    /// In one line.
    pub(super) fn message_text(&self) -> String {
        let fields = self.validations.iter().flatten();
        let fields = fields.map(|one| format!("{}: {}", one.field, one.detail));
        let parts = [Some(self.message.clone()), self.detail.clone()];
        let parts = parts.into_iter().flatten().chain(fields);
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        parts.join(" / ")
    }
}
