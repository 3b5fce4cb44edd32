//! The bodies of coderd's API, reduced to the fields in use. Unknown fields are ignored; missing
//! and null fields have defaults.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct BuildInfo {
    /// For example `v2.36.1+0d2d1c8`.
    pub(crate) version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct CoderUser {
    /// The ID, by which the server's rate limit counts.
    pub(crate) id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Organization {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// A provisioner key without its plaintext, which is returned only on creation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ProvisionerKey {
    pub(crate) id: String,
    /// Creation time, by the server's clock.
    pub(crate) created_at: Timestamp,
    /// Name, in lower case.
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) tags: Option<BTreeMap<String, String>>,
}

impl ProvisionerKey {
    /// The ID, if known: the response to the creation does not contain it.
    pub(crate) fn known_id(&self) -> Option<String> {
        Some(self.id.clone()).filter(|id| !id.is_empty())
    }
}

/// A key and the daemons connected with it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ProvisionerKeyDaemons {
    pub(crate) key: ProvisionerKey,
    /// The daemons seen within three heartbeats.
    #[serde(default)]
    pub(crate) daemons: Option<Vec<ProvisionerDaemon>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ProvisionerDaemon {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    /// `offline`, `idle`, `busy`, or missing.
    #[serde(default)]
    pub(crate) status: Option<String>,
    /// Last heartbeat, by the server's clock.
    #[serde(default)]
    pub(crate) last_seen_at: Option<Timestamp>,
}

/// The license state of a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entitlement {
    Entitled,
    /// License expired, but still usable for some time.
    GracePeriod,
    #[default]
    #[serde(other)]
    NotEntitled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Feature {
    #[serde(default)]
    pub(crate) entitlement: Entitlement,
    #[serde(default)]
    pub(crate) enabled: bool,
}

/// License state of the features that the operator needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Licence")]
pub(crate) struct Entitlements {
    pub(crate) provisioners: Feature,
    pub(crate) proxies: Feature,
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

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct WorkspaceProxy {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) display_name: String,
    #[serde(default, rename = "icon_url")]
    pub(crate) icon: String,
    /// Creation time, by the server's clock.
    #[serde(default)]
    pub(crate) created_at: Option<Timestamp>,
    /// Whether it was deleted: a read by ID still returns it.
    #[serde(default)]
    pub(crate) deleted: bool,
    #[serde(default)]
    pub(crate) status: Option<WorkspaceProxyHealth>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct WorkspaceProxyHealth {
    /// `ok`, `unreachable`, `unhealthy`, `unregistered`, or `unknown` if it was deleted.
    #[serde(default)]
    pub(crate) status: String,
}

/// The plaintext of a new key. Cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CreatedKey(pub(crate) String);

impl CreatedKey {
    /// The plaintext, only for the Secret.
    pub(crate) fn reveal(&self) -> &str {
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
pub(crate) struct CreatedProxy {
    pub(crate) proxy: WorkspaceProxy,
    /// Its token, unless it keeps the old one.
    pub(crate) token: Option<CreatedKey>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ProxyDisplay {
    pub(crate) name: String,
    pub(crate) display_name: String,
    pub(crate) icon: String,
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
    pub(super) fn message_text(&self) -> String {
        let fields = self.validations.iter().flatten();
        let fields = fields.map(|one| format!("{}: {}", one.field, one.detail));
        let parts = [Some(self.message.clone()), self.detail.clone()];
        let parts = parts.into_iter().flatten().chain(fields);
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        parts.join(" / ")
    }
}
