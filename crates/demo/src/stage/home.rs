//! The demo's files: one private directory that is gone at the end, and a kubeconfig that may be
//! wanted elsewhere.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Where the files are. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Home {
    dir: TempDir,
    kubeconfig: PathBuf,
}

impl Home {
    /// A new directory that only this user can read.
    pub(crate) fn make(kubeconfig: Option<&Path>) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("aplomb-demo-").tempdir();
        let dir = dir.context("make a temporary directory; TMPDIR names where")?;
        let kubeconfig = match kubeconfig {
            Some(file) => std::path::absolute(file)?,
            None => dir.path().join("kubeconfig"),
        };
        Ok(Self { dir, kubeconfig })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.path().join("operators.log")
    }

    /// The agent's key.
    pub(crate) fn key(&self) -> PathBuf {
        self.dir.path().join("agent.key")
    }

    /// Removes everything, also a kubeconfig elsewhere: what it leads to is gone.
    pub(crate) fn leave(self) -> Result<()> {
        if !self.kubeconfig.starts_with(self.dir.path()) {
            std::fs::remove_file(&self.kubeconfig)
                .with_context(|| format!("remove {}", self.kubeconfig.display()))?;
        }
        let path = self.dir.path().display().to_string();
        self.dir.close().with_context(|| format!("remove {path}"))
    }
}
