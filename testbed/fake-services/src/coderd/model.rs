//! What coderd keeps: organisations, provisioner keys, workspace proxies. Of secrets only digests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::users::{Secret, digest, id_of};

/// Names of keys that the server keeps for itself.
pub(super) const RESERVED: [&str; 3] = ["built-in", "user-auth", "psk"];
/// The proxy that every server has.
pub(super) const PRIMARY: &str = "primary";

/// An organisation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Organization {
    /// Made of the name where it is left out.
    pub id: String,
    /// Its name.
    pub name: String,
}

impl Organization {
    /// An organisation whose id is made of its name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let id = id_of(&format!("organization {name}"));
        let name = name.to_owned();
        Self { id, name }
    }
}

/// A provisioner key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Key {
    /// Made up where it is left out.
    pub id: String,
    /// Name of its organisation; empty: the default one.
    pub organization: String,
    /// Its name, in lower case.
    pub name: String,
    /// What its daemons are for.
    pub tags: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// SHA-256 of its plaintext, in hex.
    pub secret_sha256: String,
    /// Its plaintext, to set it. It is never shown.
    #[serde(skip_serializing)]
    pub(super) secret: Option<Secret>,
}

/// A workspace proxy.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Proxy {
    /// Made up where it is left out.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What people see.
    pub display_name: String,
    /// Its icon.
    pub icon: String,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When it was changed last.
    pub updated_at: Option<Timestamp>,
    /// Whether a proxy server has ever reported with its token.
    pub registered: bool,
    /// Whether it was deleted: the server keeps the row, and shows it by its id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// SHA-256 of its token, in hex.
    pub token_sha256: String,
    /// Its token, to set it. It is never shown.
    #[serde(skip_serializing)]
    pub(super) token: Option<Secret>,
}

impl Key {
    /// Fills in what was left out, and keeps of the plaintext only its digest.
    pub(super) fn complete(mut self, now: Timestamp, id: impl FnOnce() -> String) -> Self {
        if self.id.is_empty() {
            self.id = id();
        }
        self.created_at.get_or_insert(now);
        if let Some(secret) = self.secret.take() {
            self.secret_sha256 = digest(&secret.0);
        }
        self
    }
}

impl Proxy {
    /// Fills in what was left out, and keeps of the token only its digest.
    pub(super) fn complete(mut self, now: Timestamp, id: impl FnOnce() -> String) -> Self {
        if self.id.is_empty() {
            self.id = id();
        }
        let created = *self.created_at.get_or_insert(now);
        self.updated_at.get_or_insert(created);
        if let Some(token) = self.token.take() {
            self.token_sha256 = digest(&token.0);
        }
        self
    }
}
