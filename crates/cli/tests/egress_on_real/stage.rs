//! The control plane, the provider and the operator's replicas, with helpers to use each.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aplomb_controlplane::{ControlPlane, Options};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::fixtures::{NEXT_TOKEN, NODES, TOKEN, project, server_id};
use crate::kubectl::kubectl;
use crate::process::Process;

/// Generous: other tests use the same cores.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);
/// The ServiceAccount, as the API server names it.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:aplomb-system:aplomb-egress";

pub(crate) struct Replica {
    pub(crate) name: &'static str,
    pub(crate) process: Process,
    pub(crate) admin: String,
    pub(crate) running: bool,
}

pub(crate) struct Stage {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) plane: ControlPlane,
    sim: Process,
    pub(crate) provider: String,
    http: reqwest::Client,
    dir: TempDir,
}

impl Stage {
    /// Starts the servers, but no operator.
    pub(crate) async fn set_up() -> Result<Self> {
        let options = Options {
            audit_log: true,
            ..Options::with_garbage_collection()
        };
        let plane = ControlPlane::start(options).await?;
        let dir = tempfile::tempdir()?;
        let tokens = dir.path().join("tokens");
        std::fs::write(&tokens, format!("{TOKEN}\n{NEXT_TOKEN}\n"))?;
        let listen = free_address()?;
        let tokens = tokens.to_string_lossy();
        let args = ["sim", "hetzner", "--listen", &listen, "--token-file", &tokens];
        let stage = Self {
            replicas: Vec::new(),
            plane,
            sim: Process::aplomb(dir.path(), "sim", &args)?,
            provider: format!("http://{listen}"),
            http: reqwest::Client::new(),
            dir,
        };
        let serves = async || stage.assigned_server().await.is_ok();
        stage.wait_until("the provider serves", serves).await?;
        stage.control("PUT", "/_sim/state", Some(project())).await?;
        Ok(stage)
    }

    /// Starts a replica with the rights of the ServiceAccount.
    pub(crate) fn start_replica(&mut self, name: &'static str) -> Result<()> {
        let kubeconfig = self.kubeconfig()?;
        let (admin, endpoint) = (free_address()?, format!("{}/v1", self.provider));
        let flags = [
            ("--kubeconfig", kubeconfig.to_str().context("a path")?),
            ("--hetzner-endpoint", &endpoint),
            ("--namespace", "aplomb-system"),
            ("--pods-namespace", "aplomb-system"),
            ("--identity", name),
            ("--admin", &admin),
            ("--log-format", "json"),
        ];
        let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
        let args: Vec<&str> = ["run", "egress"].into_iter().chain(flags).collect();
        let process = Process::aplomb(self.dir.path(), name, &args)?;
        let admin = format!("http://{admin}");
        let running = true;
        self.replicas.push(Replica {
            name,
            process,
            admin,
            running,
        });
        Ok(())
    }

    /// A kubeconfig with the ServiceAccount's token, created with kubectl.
    fn kubeconfig(&self) -> Result<PathBuf> {
        let token = self.kubectl(&["create", "token", "aplomb-egress", "-n", "aplomb-system"])?;
        let path = self.dir.path().join("operator.kubeconfig");
        let config = self.plane.kubeconfig(token.trim())?;
        std::fs::write(&path, serde_json::to_vec(&config)?)?;
        Ok(path)
    }

    /// Runs kubectl as the administrator, in the checkout.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(args, "")
    }

    /// The same, with `input` on standard input.
    pub(crate) fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.plane, args, input)
    }

    /// `kubectl wait` for the sample.
    pub(crate) fn wait_for(&self, what: &str) -> Result<()> {
        let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
        let what = format!("--for={what}");
        self.kubectl(&["wait", &what, "stableegress/web", &timeout])?;
        Ok(())
    }

    /// Waits until `node` is the gateway in the status, in all labels and at the provider.
    pub(crate) async fn wait_moved(&self, node: &str, began: Instant) -> Result<()> {
        self.wait_for(&format!("jsonpath={{.status.activeNode}}={node}"))?;
        self.wait_for("condition=Ready")?;
        let took = began.elapsed();
        ensure!(
            self.assigned_server().await? == Some(server_id(node)),
            "the status has {node}, the provider does not"
        );
        for kind in ["nodes", "ciliumnodes"] {
            let labelled = self.labeled_nodes(kind)?;
            ensure!(labelled == [node], "labelled {kind}: {labelled:?}");
        }
        println!("        on {node} after {took:.1?}, kubectl's own time included");
        Ok(())
    }

    /// The gateway in the status.
    pub(crate) fn active_node(&self) -> Result<String> {
        self.kubectl(&["get", "seg", "web", "-o", "jsonpath={.status.activeNode}"])
    }

    /// Cordons the gateway, and waits until the first other node by name replaces it.
    pub(crate) async fn cordon_gateway(&self) -> Result<()> {
        let began = Instant::now();
        let gateway = self.active_node()?;
        self.kubectl(&["cordon", &gateway])?;
        self.wait_moved(standby_of(&gateway), began).await?;
        self.kubectl(&["uncordon", &gateway])?;
        Ok(())
    }

    /// The objects of a kind that carry the gateway label.
    pub(crate) fn labeled_nodes(&self, kind: &str) -> Result<Vec<String>> {
        let selector = "egress.aplomb.dev/gateway=web";
        let names = self.kubectl(&["get", kind, "-l", selector, "-o", "name"])?;
        let names = names.lines().filter_map(|line| line.split('/').next_back());
        Ok(names.map(str::to_owned).collect())
    }

    /// The server that has the floating IP, according to the provider.
    pub(crate) async fn assigned_server(&self) -> Result<Option<u64>> {
        let state = self.control("GET", "/_sim/state", None).await?;
        Ok(state["floating_ips"][0]["server"].as_u64())
    }

    /// Calls the simulator's own control API.
    pub(crate) async fn control(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        let url = format!("{}{path}", self.provider);
        let request = self.http.request(method.parse()?, url);
        let request = match body {
            Some(body) => request.body(body.to_string()),
            None => request,
        };
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status.is_success(), "{method} {path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// The response of a replica's admin address.
    pub(crate) async fn get_admin(&self, replica: &Replica, path: &str) -> Result<String> {
        let url = format!("{}{path}", replica.admin);
        let response = self.http.get(url).send().await?.error_for_status()?;
        Ok(response.text().await?)
    }

    /// Polls, because another process cannot be awaited.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl AsyncFn() -> bool) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if holds().await {
                return Ok(());
            }
            sleep(Duration::from_millis(200)).await;
        }
        bail!("not within {TIMEOUT:?}: {what}")
    }

    /// The leader, according to the metrics.
    pub(crate) async fn leader(&self) -> Option<usize> {
        for (at, replica) in self.replicas.iter().enumerate().filter(|(_, r)| r.running) {
            let metrics = self.get_admin(replica, "/metrics").await.unwrap_or_default();
            let mut lines = metrics.lines();
            let leads = |line: &str| line.starts_with("leader_election_master_status{") && line.ends_with(" 1");
            if lines.any(leads) {
                return Some(at);
            }
        }
        None
    }

    /// The end of every log, after a failure.
    pub(crate) fn show_logs(&self) {
        let replicas = self.replicas.iter().map(|r| (r.name, &r.process));
        for (name, process) in replicas.chain([("sim", &self.sim)]) {
            let log = process.log().unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            println!("-- {name}");
            for line in &lines[lines.len().saturating_sub(60)..] {
                println!("{line}");
            }
        }
    }
}

/// The next gateway if all nodes are healthy.
pub(crate) fn standby_of(gateway: &str) -> &'static str {
    let mut names = NODES.iter().map(|(name, _)| *name);
    names.find(|name| *name != gateway).unwrap_or_default()
}

/// A free address.
fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
