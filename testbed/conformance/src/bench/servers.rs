//! The two servers of a bench, each in processes of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aplomb_apiserver::standalone::{StandaloneConfig, start as start_box};
use aplomb_controlplane::{ControlPlane, Options};
use kube::config::Kubeconfig;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::connection::Connection;
use super::processes::programs;

const PATIENCE: Duration = Duration::from_secs(20);

/// A server, a client of it, and the processes it is made of.
pub struct Peer {
    /// `BOX` or `REAL`.
    pub name: &'static str,
    /// The one connection to it.
    pub connection: Connection,
    /// Whose memory counts.
    pub processes: Vec<u32>,
    /// What rests while the other is asked. Nothing of the box: it has no work left once it has answered.
    pub rests: Vec<u32>,
    _kept: Kept,
}

#[allow(dead_code, reason = "held for their Drop")]
enum Kept {
    Box(Box<Child>, TempDir),
    Real(Box<ControlPlane>),
}

/// Starts both. `program` is this program: it serves a box when it is told to (see [`serve`]), so
/// that nothing else has to be built.
///
/// # Errors
/// When one does not come up.
pub async fn start(program: &Path) -> Result<[Peer; 2]> {
    // The box hangs up on a connection that asks nothing for long, and the real server starts slowly.
    let real = real().await?;
    Ok([boxed(program).await?, real])
}

async fn boxed(program: &Path) -> Result<Peer> {
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("kubeconfig");
    let mut child = Command::new(program)
        .arg("--serve")
        .arg(&kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting the box")?;
    let stdout = child.stdout.take().context("the box has no output")?;
    let line = timeout(PATIENCE, BufReader::new(stdout).lines().next_line()).await??;
    ensure!(line.is_some(), "the box ended");
    let config = Kubeconfig::read_from(&kubeconfig)?;
    Ok(Peer {
        name: "BOX",
        connection: Connection::open(config).await?,
        processes: vec![child.id().context("the box ended")?],
        rests: Vec::new(),
        _kept: Kept::Box(Box::new(child), dir),
    })
}

async fn real() -> Result<Peer> {
    let plane = ControlPlane::start(Options {
        rbac: false,
        ..Options::default()
    })
    .await?;
    Ok(Peer {
        name: "REAL",
        connection: Connection::open(plane.kubeconfig(&plane.tokens().admin)?).await?,
        rests: programs(&plane.processes())?,
        processes: plane.processes(),
        _kept: Kept::Real(Box::new(plane)),
    })
}

/// Serves a box until standard input ends.
///
/// # Errors
/// When it cannot listen.
#[allow(clippy::print_stdout, reason = "the line the parent waits for")]
pub async fn serve(kubeconfig: &Path) -> Result<()> {
    let config = StandaloneConfig {
        kubeconfig: Some(kubeconfig.to_owned()),
        ..StandaloneConfig::default()
    };
    let running = start_box(config).await?;
    println!("ready {}", running.url());
    let ended = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(ended).await??;
    running.stop().await;
    Ok(())
}
