//! The control plane, the simulated servers and our processes, each with its ServiceAccount's token.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aplomb_controlplane::{ControlPlane, Options};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::helm::{self, SYSTEM};
use crate::kubectl::kubectl;
use crate::process::Process;
use crate::traffic::Endpoints;

/// Generous: other tests use the same cores.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);
/// Tokens of the simulated servers.
pub(crate) const HETZNER_TOKEN: &str = "k3VtZ9wQ1nRb7yXc5LdJ0hPf8sGm2AuE6iTo4WvBqNzKxYjCrHgDlSpFMeUaOIty";
pub(crate) const CODER_TOKEN: &str = "kV3tZ9wQ1n-Rb7yXc5LdJ0hPf8sGm2AuE";

struct Running {
    process: Process,
    admin: String,
    /// The gateway's public listener.
    listen: String,
}

pub(crate) struct Stage {
    running: BTreeMap<String, Running>,
    pub(crate) agent: Option<Process>,
    simulators: Vec<Process>,
    pub(crate) plane: ControlPlane,
    pub(crate) endpoints: Endpoints,
    pub(crate) hetzner: String,
    pub(crate) coderd: String,
    http: reqwest::Client,
    pub(crate) dir: TempDir,
}

impl Stage {
    /// Starts the servers, but nothing of ours.
    pub(crate) async fn set_up() -> Result<Self> {
        let options = Options {
            audit_log: true,
            ..Options::with_garbage_collection()
        };
        Ok(Self {
            running: BTreeMap::new(),
            agent: None,
            simulators: Vec::new(),
            plane: ControlPlane::start(options).await?,
            endpoints: Endpoints::default(),
            hetzner: String::new(),
            coderd: String::new(),
            http: reqwest::Client::builder().no_proxy().build()?,
            dir: tempfile::tempdir()?,
        })
    }

    /// Starts the simulated Hetzner API and coderd.
    pub(crate) async fn start_simulators(&mut self) -> Result<()> {
        let (hetzner, coderd) = (free_address()?, free_address()?);
        let token = self.write_file("hetzner.token", HETZNER_TOKEN)?;
        let args = ["sim", "hetzner", "--listen", &hetzner, "--token-file"];
        let args = [&args[..], &[&token]].concat();
        let sim = Process::aplomb(self.dir.path(), "hetzner", &args)?;
        self.simulators.push(sim);
        let token = self.write_file("coder.token", &format!("{CODER_TOKEN} admin owner"))?;
        let kubeconfig = self.plane.kubeconfig_path();
        let kubeconfig = kubeconfig.to_str().context("a path")?;
        let flags = ["sim", "coderd", "--listen", &coderd, "--token-file", &token];
        let more = ["--kubeconfig", kubeconfig, "--heartbeat", "2s"];
        let args = [&flags[..], &more].concat();
        let sim = Process::aplomb(self.dir.path(), "coderd", &args)?;
        self.simulators.push(sim);
        self.hetzner = format!("http://{hetzner}");
        self.coderd = format!("http://{coderd}");
        let both = async || {
            self.get(&format!("{}/_sim/state", self.hetzner)).await.is_ok()
                && self.get(&format!("{}/_sim/state", self.coderd)).await.is_ok()
        };
        self.wait_until("the simulated servers serve", both).await
    }

    fn write_file(&self, name: &str, content: &str) -> Result<String> {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content)?;
        Ok(path.to_str().context("a path")?.to_owned())
    }

    /// A kubeconfig with a ServiceAccount's token, created with kubectl.
    pub(crate) fn kubeconfig(&self, namespace: &str, account: &str) -> Result<String> {
        let token = self.kubectl(&["create", "token", account, "-n", namespace])?;
        let config = self.plane.kubeconfig(token.trim())?;
        let name = format!("{namespace}-{account}.kubeconfig");
        self.write_file(&name, &serde_json::to_string(&config)?)
    }

    /// Starts an operator, `aplomb-WORD` in `namespace`, and waits until it is ready.
    pub(crate) async fn start_operator(
        &mut self,
        word: &str,
        name: &str,
        namespace: &str,
        more: &[&str],
    ) -> Result<()> {
        let account = format!("aplomb-{word}");
        let mut args = vec!["run", word];
        let hetzner = format!("{}/v1", self.hetzner);
        if word == "egress" {
            args.extend(["--hetzner-endpoint", &hetzner, "--pods-namespace", namespace]);
        }
        args.extend(more);
        self.start_process(name, namespace, &account, &args).await
    }

    /// Starts a gateway, and sends requests to it once it is ready.
    pub(crate) async fn start_gateway(&mut self, name: &str) -> Result<()> {
        let listen = free_address()?;
        let args = ["gateway", "--listen", &listen];
        self.start_process(name, SYSTEM, "aplomb-gateway", &args).await?;
        if let Some(it) = self.running.get_mut(name) {
            it.listen.clone_from(&listen);
        }
        self.endpoints().push(listen);
        Ok(())
    }

    async fn start_process(&mut self, name: &str, namespace: &str, account: &str, args: &[&str]) -> Result<()> {
        let (kubeconfig, admin) = (self.kubeconfig(namespace, account)?, free_address()?);
        let flags = [
            ("--kubeconfig", kubeconfig.as_str()),
            ("--namespace", namespace),
            ("--identity", name),
            ("--admin", &admin),
            ("--log-format", "json"),
        ];
        let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
        let args: Vec<&str> = args.iter().copied().chain(flags).collect();
        let process = Process::aplomb(self.dir.path(), name, &args)?;
        let ready = format!("http://{admin}/readyz");
        let listen = String::new();
        let it = Running { process, admin, listen };
        self.running.insert(name.to_owned(), it);
        let what = format!("{name} is ready");
        self.wait_until(&what, async || self.get(&ready).await.is_ok()).await
    }

    /// Stops a process and waits for its exit. Clients first stop using a gateway.
    pub(crate) fn stop_process(&mut self, name: &str) -> Result<()> {
        let mut it = self.running.remove(name).context("no such process")?;
        self.endpoints().retain(|listen| *listen != it.listen);
        it.process.terminate()
    }

    /// Stops all of them, as if their pods were deleted.
    pub(crate) fn stop_all(&mut self) -> Result<()> {
        let names: Vec<String> = self.running.keys().cloned().collect();
        names.iter().try_for_each(|name| self.stop_process(name))
    }

    fn endpoints(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.endpoints.lock().expect("no panic while holding the lock")
    }

    /// The responses of all admin addresses.
    pub(crate) async fn get_admin(&self, path: &str) -> Result<String> {
        let mut all = String::new();
        for it in self.running.values() {
            all += &self.get(&format!("http://{}{path}", it.admin)).await?;
        }
        Ok(all)
    }

    pub(crate) async fn get(&self, url: &str) -> Result<String> {
        let response = self.http.get(url).send().await?.error_for_status()?;
        Ok(response.text().await?)
    }

    pub(crate) async fn put(&self, url: &str, body: &Value) -> Result<()> {
        let request = self.http.put(url).body(body.to_string());
        request.send().await?.error_for_status()?;
        Ok(())
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(args, "")
    }

    pub(crate) fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.plane, args, input)
    }

    pub(crate) fn helm(&self, args: &[&str]) -> Result<String> {
        helm::helm(&self.plane, args)
    }

    pub(crate) fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl_with(&["apply", "-f", "-"], &object.to_string())?;
        Ok(())
    }

    /// `kubectl wait`, also for objects that do not exist yet.
    pub(crate) fn wait(&self, namespace: &str, object: &str, what: &str) -> Result<()> {
        let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
        for what in ["create", what] {
            let what = format!("--for={what}");
            self.kubectl(&["wait", "-n", namespace, &what, object, &timeout])?;
        }
        Ok(())
    }

    /// Polls, because another process cannot be awaited.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl AsyncFn() -> bool) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if holds().await {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        bail!("not within {TIMEOUT:?}: {what}")
    }

    /// The end of every log, after a failure.
    pub(crate) fn show_logs(&self) {
        let running = self.running.iter().map(|(name, it)| (name.as_str(), &it.process));
        let agent = self.agent.iter().map(|agent| ("agent", agent));
        let sims = self.simulators.iter().map(|sim| ("sim", sim));
        for (name, process) in running.chain(agent).chain(sims) {
            let log = process.log().unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            println!("-- {name}");
            for line in &lines[lines.len().saturating_sub(20)..] {
                println!("{line}");
            }
        }
    }
}

/// A free address.
fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
