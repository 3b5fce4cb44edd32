//! One run of the suite against one server: the node it asks for, its flags, its report.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::{Counts, Encoding, FOCUS, Outcome, SKIP};

/// Six times what the real server needs.
const LIMIT: Duration = Duration::from_secs(1800);

/// What a run needs to know.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The suite's program.
    pub suite: &'a Path,
    /// For specs that call it.
    pub kubectl: &'a Path,
    /// `box` or `real`.
    pub server: &'static str,
    /// How to reach the server as administrator.
    pub kubeconfig: &'a Path,
    /// How the suite's clients speak.
    pub encoding: Encoding,
    /// Which specs; all that are known to need no nodes when `None`.
    pub focus: Option<&'a str>,
    /// Where the log and the report go.
    pub out: PathBuf,
}

/// Runs the suite once.
///
/// # Errors
/// When it cannot be started or leaves no report.
pub async fn run(run: &Run<'_>) -> Result<Outcome> {
    let report = run.out.join(format!("{}-{}.xml", run.server, run.encoding));
    let log = run.out.join(format!("{}-{}.log", run.server, run.encoding));
    let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let began = Instant::now();
    let mut child = Command::new(run.suite)
        .args(flags(run, &report))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting {}", run.suite.display()))?;
    // A failed spec makes the exit code 1; the report says which.
    let Ok(status) = timeout(LIMIT, child.wait()).await else {
        bail!("the suite still runs after {LIMIT:?}; see {}", log.display());
    };
    let text = std::fs::read_to_string(&report).with_context(|| {
        format!(
            "{}: no report; see {}",
            status.map_or_else(|e| e.to_string(), |s| s.to_string()),
            log.display()
        )
    })?;
    Ok(Outcome {
        server: run.server,
        encoding: run.encoding,
        counts: Counts::read(&text)?,
        took: began.elapsed(),
    })
}

fn flags(run: &Run<'_>, report: &Path) -> Vec<String> {
    vec![
        "--provider=skeleton".to_owned(),
        format!("--kubeconfig={}", run.kubeconfig.display()),
        format!("--kubectl-path={}", run.kubectl.display()),
        "--allowed-not-ready-nodes=-1".to_owned(),
        "--minStartupPods=0".to_owned(),
        format!("--kube-api-content-type={}", run.encoding.media_type()),
        format!("--ginkgo.focus={}", run.focus.unwrap_or(FOCUS)),
        format!("--ginkgo.skip={SKIP}"),
        "--ginkgo.no-color".to_owned(),
        format!("--ginkgo.junit-report={}", report.display()),
    ]
}

/// Makes the one Ready node without which the suite does not begin.
///
/// # Errors
/// When the server refuses it.
pub async fn node(kubeconfig: &Path) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let nodes: Api<Node> = Api::all(Client::try_from(config)?);
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": "node-a" } }))?;
    nodes.create(&PostParams::default(), &node).await?;
    // A new node is tainted until somebody says that it is ready.
    let untainted = json!({ "spec": { "taints": null } });
    let params = PatchParams::default();
    nodes.patch("node-a", &params, &Patch::Merge(untainted)).await?;
    let resources = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    let since = "2026-01-01T00:00:00Z";
    let ready = json!({ "status": {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": since, "lastTransitionTime": since,
        }],
    }});
    nodes.patch_status("node-a", &params, &Patch::Merge(ready)).await?;
    Ok(())
}
