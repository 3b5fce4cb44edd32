//! The API server of the test: the box, or a real etcd and kube-apiserver. Both are used in the same way and keep an
//! audit log.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use aplomb_controlplane::{Binaries, ControlPlane, Options, Program};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use crate::process::Process;

/// Keeps the server running.
enum ServerProcess {
    Box(#[expect(dead_code, reason = "only held, to keep it running")] Process),
    Real(#[expect(dead_code, reason = "only held, to keep it running")] Box<ControlPlane>),
}

pub(crate) struct Server {
    _process: ServerProcess,
    kubectl: PathBuf,
    client: kube::Client,
    pub(crate) kubeconfig: PathBuf,
    audit: PathBuf,
}

impl Server {
    pub(crate) async fn start_box(dir: &Path) -> Result<Self> {
        let (kubeconfig, audit) = (dir.join("kubeconfig"), dir.join("audit.log"));
        let args = [
            "box",
            "--listen",
            "127.0.0.1:0",
            "--kubeconfig",
            kubeconfig.to_str().context("a path")?,
            "--audit-log",
            audit.to_str().context("a path")?,
        ];
        let mut process = Process::aplomb(dir, "box", &args)?;
        process.wait_ready().await?;
        Self::connect_to(ServerProcess::Box(process), kubeconfig, audit).await
    }

    pub(crate) async fn start_real() -> Result<Self> {
        let options = Options {
            audit_log: true,
            ..Options::with_garbage_collection()
        };
        let plane = ControlPlane::start(options).await?;
        let (kubeconfig, audit) = (plane.kubeconfig_path(), plane.audit_log());
        Self::connect_to(ServerProcess::Real(Box::new(plane)), kubeconfig, audit).await
    }

    async fn connect_to(kept: ServerProcess, kubeconfig: PathBuf, audit: PathBuf) -> Result<Self> {
        let read = Kubeconfig::read_from(&kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(read, &options).await?;
        Ok(Self {
            _process: kept,
            kubectl: Binaries::find()?.path(Program::Kubectl).to_owned(),
            client: aplomb::client(config)?,
            kubeconfig,
            audit,
        })
    }

    /// The response to a GET of `path`.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client.request(request).await?)
    }

    /// Runs kubectl in the checkout, with `input` on standard input.
    pub(crate) fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        let mut child = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(args)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("kubectl has no input")?;
        stdin.write_all(input.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {said}", args.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Every completed request, as audit.k8s.io/v1 events.
    pub(crate) fn audit_entries(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(&self.audit)?;
        let lines = text.lines();
        Ok(lines.filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}
