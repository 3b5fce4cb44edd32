//! The pinned releases and the Go modules that lock them.
//!
//! `versions.yaml` is the one place where a version is written by hand; the Go modules beside it
//! carry the checksums. This file must not know how anything is built or started.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use sha2::{Digest, Sha256};

const PINNED: &str = include_str!("../versions.yaml");

/// The Go modules under `build/`. One each, because they would raise each other's dependencies:
/// an API server has to be built from exactly what its release was built from.
pub(crate) const MODULES: [&str; 3] = ["kubernetes", "helm", "gateway-api"];

/// Releases of the programs and manifests the tests use.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Versions {
    /// kube-apiserver, kube-controller-manager and kubectl.
    pub kubernetes: String,
    /// etcd.
    pub etcd: String,
    /// helm.
    pub helm: String,
    /// The Gateway API custom resource definitions.
    #[serde(rename = "gatewayAPI")]
    pub gateway_api: String,
}

impl Versions {
    /// The versions of `versions.yaml`.
    ///
    /// # Errors
    /// When that file is malformed.
    pub fn pinned() -> Result<Self> {
        serde_saphyr::from_str(PINNED).context("reading versions.yaml")
    }

    /// Major and minor of the Kubernetes release: `("1", "36")`.
    pub(crate) fn kubernetes_minor(&self) -> (String, String) {
        let mut parts = self.kubernetes.trim_start_matches('v').split('.').map(str::to_owned);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}

/// Where the Go modules are: in this crate's source.
pub(crate) fn module_dir(module: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("build").join(module)
}

/// The module of the end-to-end suite: it needs more than the server does, and is built only when
/// asked for.
pub(crate) const SUITE: &str = "e2e";

/// A name that changes whenever the binaries would: hash of the versions and of every lock file.
pub(crate) fn fingerprint() -> Result<String> {
    fingerprint_of(&MODULES)
}

/// The same for some of the modules.
pub(crate) fn fingerprint_of(modules: &[&str]) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(PINNED);
    for module in modules {
        for file in ["go.mod", "go.sum"] {
            let path = module_dir(module).join(file);
            hash.update(std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?);
        }
    }
    let digest = hash.finalize();
    Ok(digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_mod(module: &str) -> String {
        std::fs::read_to_string(module_dir(module).join("go.mod")).expect("go.mod is readable")
    }

    #[test]
    fn go_modules_require_the_pinned_versions() {
        let pinned = Versions::pinned().expect("versions.yaml is well formed");
        let staging = pinned.kubernetes.replacen("v1.", "v0.", 1);
        let wanted = [
            ("kubernetes", format!("k8s.io/kubernetes {}", pinned.kubernetes)),
            (SUITE, format!("k8s.io/kubernetes {}", pinned.kubernetes)),
            ("kubernetes", format!("go.etcd.io/etcd/server/v3 {}", pinned.etcd)),
            ("kubernetes", format!("k8s.io/apiserver => k8s.io/apiserver {staging}")),
            ("helm", format!("helm.sh/helm/v3 {}", pinned.helm)),
            ("gateway-api", format!("sigs.k8s.io/gateway-api {}", pinned.gateway_api)),
        ];
        for (module, line) in wanted {
            assert!(go_mod(module).contains(&line), "{module}/go.mod lacks `{line}`");
        }
    }

    #[test]
    fn every_staging_module_is_replaced_by_the_same_release() {
        let pinned = Versions::pinned().expect("versions.yaml is well formed");
        let staging = pinned.kubernetes.replacen("v1.", "v0.", 1);
        for module in ["kubernetes", SUITE] {
            let text = go_mod(module);
            let replaces: Vec<_> = text.lines().filter(|line| line.contains("=> k8s.io/")).collect();
            assert_eq!(replaces.len(), 31);
            assert!(replaces.iter().all(|line| line.ends_with(&staging)), "{replaces:#?}");
        }
    }
}
