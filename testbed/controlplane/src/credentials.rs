//! Who may talk to a started control plane, and how a client is made for them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Bearer tokens a control plane accepts.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// User `admin` of group `system:masters`: may do everything.
    pub admin: String,
    /// User `restricted`, of no group: may do what a role binding grants.
    pub restricted: String,
}

impl Tokens {
    pub(crate) fn fixed() -> Self {
        Self {
            admin: "admin-token".to_owned(),
            restricted: "restricted-token".to_owned(),
        }
    }

    /// The file for `--token-auth-file`.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = format!(
            "{},admin,admin-uid,\"system:masters\"\n{},restricted,restricted-uid\n",
            self.admin, self.restricted
        );
        fs::write(path, text).context("writing the token file")
    }
}

/// A kubeconfig with one user.
pub(crate) fn kubeconfig(url: &str, authority_pem: &str, token: &str) -> Result<Kubeconfig> {
    let authority = ByteString(authority_pem.as_bytes().to_vec());
    let value = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "controlplane",
            "cluster": { "server": url, "certificate-authority-data": authority },
        }],
        "users": [{ "name": "user", "user": { "token": token } }],
        "contexts": [{
            "name": "default",
            "context": { "cluster": "controlplane", "user": "user", "namespace": "default" },
        }],
        "current-context": "default",
    });
    serde_json::from_value(value).context("making a kubeconfig")
}

/// A client that never retries: a test wants the server's own answer.
pub(crate) async fn client(url: &str, authority_pem: &str, token: &str) -> Result<Client> {
    let kubeconfig = kubeconfig(url, authority_pem, token)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Client::try_from(config).context("making a client")
}
