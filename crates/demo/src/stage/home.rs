//! The demo's files: one private directory that is gone at the end, and a kubeconfig that may be
//! wanted elsewhere.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Where the files are. Dropping it removes them.
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

    /// The kubeconfig is ours from here on: whatever was there before would not have been replaced.
    pub(crate) fn own_kubeconfig(&self) {
        self.owns_kubeconfig.set(true);
    }
}

impl Drop for DemoDir {
    /// The directory goes by itself; so must a kubeconfig elsewhere, which leads nowhere any more.
    fn drop(&mut self) {
        if self.owns_kubeconfig.get()
            && let Err(error) = std::fs::remove_file(&self.kubeconfig)
        {
            tracing::warn!(%error, "The kubeconfig could not be removed");
        }
    }
}
