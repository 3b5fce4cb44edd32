//! One of each: an API server, simulated coderd and Hetzner, a gateway, an agent with its local service, and
//! replicas of `aplomb run tunnel coder egress`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::process::Process;
use crate::server::Server;

/// Generous: other tests use the same cores, and a lease may have to expire.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);
/// The names of the operators' leases.
pub(crate) const LEASES: [&str; 3] = ["aplomb-coder", "aplomb-egress", "aplomb-tunnel"];

pub(crate) struct Replica {
    pub(crate) process: Process,
    pub(crate) identity: String,
    pub(crate) admin: String,
}

pub(crate) struct Stage {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) server: Server,
    pub(crate) coderd: String,
    pub(crate) hetzner: String,
    /// Where the local service listens.
    pub(crate) port: u16,
    http: reqwest::Client,
    /// The gateway, the agent and the simulated servers.
    others: Vec<Process>,
    dir: TempDir,
}

impl Stage {
    /// Starts the servers, but no operator.
    pub(crate) async fn set_up(real: bool) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let server = match real {
            true => Server::start_real().await?,
            false => Server::start_box(dir.path()).await?,
        };
        let tokens = dir.path().join("tokens");
        std::fs::write(&tokens, format!("{:064}\n", 7))?;
        let tokens = tokens.to_str().context("a path")?;
        let hetzner = ["sim", "hetzner", "--listen", "127.0.0.1:0", "--token-file", tokens];
        let kubeconfig = server.kubeconfig.to_str().context("a path")?;
        let coderd = [
            "sim",
            "coderd",
            "--listen",
            "127.0.0.1:0",
            "--kubeconfig",
            kubeconfig,
            "--heartbeat",
            "2s",
        ];
        let mut hetzner = Process::aplomb(dir.path(), "hetzner", &hetzner)?;
        let mut coderd = Process::aplomb(dir.path(), "coderd", &coderd)?;
        Ok(Self {
            replicas: Vec::new(),
            hetzner: hetzner.wait_ready().await?,
            coderd: coderd.wait_ready().await?,
            server,
            port: 0,
            http: reqwest::Client::builder().no_proxy().build()?,
            others: vec![hetzner, coderd],
            dir,
        })
    }

    /// The gateway, and an agent with a local service behind it.
    pub(crate) fn start_agent(&mut self) -> Result<()> {
        let service = TcpListener::bind("127.0.0.1:0")?;
        self.port = service.local_addr()?.port();
        let target = self.port.to_string();
        std::thread::spawn(move || serve_origin(&service));
        let kubeconfig = self.server.kubeconfig.clone();
        let kubeconfig = kubeconfig.to_str().context("a path")?;
        let listen = free_address()?;
        let gateway = ["gateway", "--kubeconfig", kubeconfig, "--listen", &listen];
        let key = self.dir.path().join("agent.key");
        let agent = [
            "connect",
            &target,
            "--kubeconfig",
            kubeconfig,
            "--name",
            "laptop",
            "--connector-only",
            "--key-file",
            key.to_str().context("a path")?,
        ];
        for (name, args) in [("gateway", &gateway[..]), ("agent", &agent[..])] {
            self.others.push(Process::aplomb(self.dir.path(), name, args)?);
        }
        Ok(())
    }

    /// Starts `aplomb run tunnel coder egress` as `identity`.
    pub(crate) fn start_replica(&mut self, identity: &str) -> Result<()> {
        let kubeconfig = self.server.kubeconfig.to_str().context("a path")?;
        let (admin, endpoint) = (free_address()?, format!("{}/v1", self.hetzner));
        let args = [
            "run",
            "tunnel",
            "coder",
            "egress",
            "--kubeconfig",
            kubeconfig,
            "--hetzner-endpoint",
            &endpoint,
            "--identity",
            identity,
            "--admin",
            &admin,
        ];
        let process = Process::aplomb(self.dir.path(), identity, &args)?;
        self.replicas.push(Replica {
            process,
            identity: identity.to_owned(),
            admin,
        });
        Ok(())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// `kubectl` with these arguments.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.server.kubectl(args, "")
    }

    /// The response of a URL.
    pub(crate) async fn get(&self, url: &str) -> Result<String> {
        let response = self.http.get(url).send().await?.error_for_status()?;
        Ok(response.text().await?)
    }

    /// A state of a simulated server.
    pub(crate) async fn get_simulator(&self, server: &str, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.get(&format!("{server}{path}")).await?)?)
    }

    /// Sets a state of a simulated server.
    pub(crate) async fn post_simulator(&self, server: &str, path: &str, body: &str) -> Result<()> {
        let request = self.http.put(format!("{server}{path}"));
        let sent = request.body(body.to_owned()).send().await?;
        sent.error_for_status()?;
        Ok(())
    }

    /// The holder of each lease.
    pub(crate) async fn lease_holders(&self) -> Result<Vec<String>> {
        let mut holders = Vec::new();
        for lease in LEASES {
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/aplomb-system/leases/{lease}");
            let lease = self.server.get(&path).await?;
            let holder = lease["spec"]["holderIdentity"].as_str();
            holders.push(holder.unwrap_or_default().to_owned());
        }
        Ok(holders)
    }

    /// Polls, because another process cannot be awaited; returns how long it took.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl AsyncFn() -> Result<bool>) -> Result<Duration> {
        let began = Instant::now();
        let mut last = None;
        while began.elapsed() < TIMEOUT {
            match holds().await {
                Ok(true) => return Ok(began.elapsed()),
                Ok(false) => last = None,
                Err(error) => last = Some(error),
            }
            sleep(Duration::from_millis(25)).await;
        }
        let why = last.map_or_else(String::new, |error| format!(": {error:#}"));
        bail!("not within {TIMEOUT:?}: {what}{why}")
    }

    /// The end of every log, after a failure.
    pub(crate) fn show_logs(&self) {
        let replicas = self.replicas.iter().map(|replica| &replica.process);
        for process in replicas.chain(&self.others) {
            println!("-- {}", process.name);
            let log = process.log();
            let lines: Vec<&str> = log.lines().collect();
            for line in &lines[lines.len().saturating_sub(40)..] {
                println!("{line}");
            }
        }
    }
}

/// A local service that responds the same to everything.
fn serve_origin(listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut head = [0; 4096];
        let _asked = stream.read(&mut head);
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
        let _told = stream.write_all(answer.as_bytes());
    }
}

/// A free address.
pub(crate) fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
