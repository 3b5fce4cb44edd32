//! The demo's files: one private directory that is removed at the end, and a kubeconfig that may be
//! elsewhere.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// The paths of the files. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct DemoDir {
    dir: TempDir,
    kubeconfig: PathBuf,
    owns_kubeconfig: Cell<bool>,
}

impl DemoDir {
    /// A new directory that only this user can read.
    pub(crate) fn new(kubeconfig: Option<&Path>) -> Result<Self> {
        let owner = std::fs::Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new()
            .prefix("aplomb-demo-")
            .permissions(owner)
            .tempdir();
        let dir = dir.context("make a temporary directory; TMPDIR names where")?;
        let kubeconfig = match kubeconfig {
            Some(file) => std::path::absolute(file)?,
            None => dir.path().join("kubeconfig"),
        };
        Ok(Self {
            dir,
            kubeconfig,
            owns_kubeconfig: Cell::default(),
        })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.dir.path().join("operators.log")
    }

    /// The agent's key.
    pub(crate) fn key_path(&self) -> PathBuf {
        self.dir.path().join("agent.key")
    }

    /// From now on the kubeconfig is removed at the end. A file that existed before is never replaced.
    pub(crate) fn own_kubeconfig(&self) {
        self.owns_kubeconfig.set(true);
    }
}

impl Drop for DemoDir {
    /// The directory is removed by its own drop; a kubeconfig elsewhere would point to nothing.
    fn drop(&mut self) {
        if self.owns_kubeconfig.get()
            && let Err(error) = std::fs::remove_file(&self.kubeconfig)
        {
            tracing::warn!(%error, "Failed to remove the kubeconfig");
        }
    }
}
