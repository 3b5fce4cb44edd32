//! Where kubectl talks to: a kubeconfig, and what keeps its server alive.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aplomb_controlplane::{ControlPlane, Options};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a kubeconfig. Dropping it stops the server.
#[derive(Debug)]
pub struct Host {
    /// `box` or `real`.
    pub name: &'static str,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// How long it took to be ready.
    pub ready_after: Duration,
    _server: Keep,
}

#[derive(Debug)]
#[allow(dead_code, reason = "held for their Drop")]
enum Keep {
    Box(Box<Child>, TempDir),
    Real(Box<ControlPlane>),
}

impl Host {
    /// Runs `aplomb box`.
    ///
    /// # Errors
    /// When it does not say that it is ready.
    pub async fn aplomb_box(program: &Path) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(["box", "--rbac", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let stdout = child.stdout.take().context("aplomb box has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let Ok(line) = timeout(PATIENCE, lines.next_line()).await else {
            bail!("aplomb box is not ready after {PATIENCE:?}");
        };
        let line = line?.context("aplomb box ended")?;
        ensure!(line.starts_with("ready https://"), "aplomb box said `{line}`");
        let ready_after = started.elapsed();
        Ok(Self {
            name: "box",
            kubeconfig,
            ready_after,
            _server: Keep::Box(Box::new(child), dir),
        })
    }

    /// Starts a real control plane.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn real() -> Result<Self> {
        let started = Instant::now();
        let plane = ControlPlane::start(Options::with_controllers()).await?;
        let kubeconfig = plane.kubeconfig_path();
        let ready_after = started.elapsed();
        Ok(Self {
            name: "real",
            kubeconfig,
            ready_after,
            _server: Keep::Real(Box::new(plane)),
        })
    }
}
