//! A running control plane: etcd, API servers, perhaps a controller manager, all on loopback.
//!
//! Everything it makes is in one temporary directory and a few child processes; both are gone when
//! the value is dropped, also when a test panics.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::{Client, config::Kubeconfig};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use crate::binaries::{Binaries, Program};
use crate::certs::Certs;
use crate::credentials::{self, Tokens};
use crate::etcd;
use crate::options::{self, Options};
use crate::process::{Process, Sweeper};

const START_LIMIT: Duration = Duration::from_secs(300);
/// A port found free can be taken by somebody else before the server binds it.
const ATTEMPTS: usize = 3;

/// A control plane that lives as long as this value.
#[derive(Debug)]
pub struct ControlPlane {
    // Order matters: fields are dropped top down, and the store must outlive its clients.
    controller_manager: Option<Process>,
    apiservers: Vec<ApiServer>,
    etcd: Process,
    etcd_port: u16,
    binaries: Binaries,
    certs: Certs,
    options: Options,
    tokens: Tokens,
    _sweeper: Sweeper,
    dir: TempDir,
}

/// One kube-apiserver of a control plane.
#[derive(Debug)]
struct ApiServer {
    process: Process,
    url: String,
}

impl ControlPlane {
    /// Starts one and waits until it serves. Builds the programs first when they are missing.
    ///
    /// # Errors
    /// When the programs cannot be had or do not come up; the message holds the end of their log.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = tokio::task::spawn_blocking(Binaries::find_or_build).await??;
        let dir = tempfile::Builder::new().prefix("aplomb-controlplane-").tempdir()?;
        let certs = Certs::generate(dir.path())?;
        let tokens = Tokens::fixed();
        tokens.write(&dir.path().join("tokens.csv"))?;
        fs::write(dir.path().join("audit-policy.yaml"), options::AUDIT_POLICY)?;
        let (etcd, etcd_port) = start_etcd(&binaries, dir.path()).await?;
        let mut plane = Self {
            controller_manager: None,
            apiservers: Vec::new(),
            etcd,
            etcd_port,
            binaries,
            certs,
            options,
            tokens,
            _sweeper: Sweeper::start(dir.path())?,
            dir,
        };
        plane.add_apiserver(&[]).await?;
        plane.write_kubeconfig()?;
        plane.start_controllers().await?;
        Ok(plane)
    }

    /// Starts another API server on the same store; returns its index.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn add_apiserver(&mut self, args: &[String]) -> Result<usize> {
        let mut options = self.options.clone();
        options.apiserver_args.extend_from_slice(args);
        for _ in 0..ATTEMPTS {
            let port = free_port().await?;
            let url = format!("https://127.0.0.1:{port}");
            let flags = options::apiserver_args(self.dir.path(), &self.certs, &options, self.etcd_port, port);
            let log = self.dir.path().join(format!("kube-apiserver-{port}.log"));
            let program = self.binaries.path(Program::KubeApiserver);
            let mut process = Process::start("kube-apiserver", program, &flags, log)?;
            let client = credentials::client(&url, &self.certs.authority_pem, &self.tokens.admin).await?;
            let serving = wait_until_serving(&client, &mut process).await;
            if serving.with_context(|| self.state_of_store())? {
                self.apiservers.push(ApiServer { process, url });
                return Ok(self.apiservers.len() - 1);
            }
        }
        bail!("no free port for kube-apiserver after {ATTEMPTS} attempts")
    }

    /// An API server that does not come up often lacks nothing but its store.
    fn state_of_store(&mut self) -> String {
        match self.etcd.exited() {
            None => "etcd runs, kube-apiserver does not come up".to_owned(),
            Some(status) => format!("etcd ended with {status}; {}", self.etcd.last_words()),
        }
    }

    /// The process ids under which the store and every API server run.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let servers = self.apiservers.iter().map(|server| server.process.id());
        std::iter::once(self.etcd.id()).chain(servers).collect()
    }

    /// A client of the first API server that may do everything and retries nothing.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub async fn client(&self) -> Result<Client> {
        self.client_of(0, &self.tokens.admin).await
    }

    /// A client of one API server with a token of [`ControlPlane::tokens`], or a wrong one.
    ///
    /// # Errors
    /// When there is no such server.
    pub async fn client_of(&self, server: usize, token: &str) -> Result<Client> {
        let server = self.apiservers.get(server).context("no such API server")?;
        credentials::client(&server.url, &self.certs.authority_pem, token).await
    }

    /// The kubeconfig of the administrator.
    #[must_use]
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// The kubeconfig for one token, as a value.
    ///
    /// # Errors
    /// Never in practice: the parts are well formed.
    pub fn kubeconfig(&self, token: &str) -> Result<Kubeconfig> {
        credentials::kubeconfig(self.url(), &self.certs.authority_pem, token)
    }

    /// Base URL of the first API server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.apiservers[0].url
    }

    /// The authority that signed its serving certificates.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.certs.authority_pem
    }

    /// Tokens it accepts.
    #[must_use]
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The programs it was started from.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The audit log; exists when it was asked for.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.dir.path().join("audit.log")
    }

    /// Forgets every version of the store older than `revision`.
    ///
    /// # Errors
    /// When etcd refuses.
    pub async fn compact(&self, revision: u64) -> Result<()> {
        etcd::compact(self.etcd_port, revision).await
    }

    /// Stops one API server and starts it again on a new port: a restart as clients see it.
    ///
    /// # Errors
    /// When there is no such server or the new one does not come up.
    pub async fn restart_apiserver(&mut self, server: usize) -> Result<()> {
        ensure!(server < self.apiservers.len(), "no such API server");
        drop(self.apiservers.remove(server));
        let new = self.add_apiserver(&[]).await?;
        self.apiservers.swap(server, new);
        self.write_kubeconfig()
    }

    /// Whether every process is still running.
    pub fn is_running(&mut self) -> bool {
        self.etcd.exited().is_none()
            && self
                .apiservers
                .iter_mut()
                .all(|server| server.process.exited().is_none())
            && self
                .controller_manager
                .iter_mut()
                .all(|process| process.exited().is_none())
    }

    fn write_kubeconfig(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.kubeconfig(&self.tokens.admin)?)?;
        fs::write(self.kubeconfig_path(), text).context("writing the kubeconfig")
    }

    async fn start_controllers(&mut self) -> Result<()> {
        if self.options.controllers.is_empty() {
            return Ok(());
        }
        let flags = options::controller_manager_args(&self.kubeconfig_path(), &self.certs, &self.options.controllers);
        let log = self.dir.path().join("kube-controller-manager.log");
        let program = self.binaries.path(Program::KubeControllerManager);
        let mut process = Process::start("kube-controller-manager", program, &flags, log)?;
        // It needs no waiting for: whoever depends on a controller waits for its effect.
        ensure!(process.exited().is_none(), "{}", process.last_words());
        self.controller_manager = Some(process);
        Ok(())
    }
}

async fn start_etcd(binaries: &Binaries, dir: &Path) -> Result<(Process, u16)> {
    for attempt in 0..ATTEMPTS {
        let (client, peer) = (free_port().await?, free_port().await?);
        let flags = options::etcd_args(dir, client, peer);
        let log = dir.join(format!("etcd-{attempt}.log"));
        let mut process = Process::start("etcd", binaries.path(Program::Etcd), &flags, log)?;
        let deadline = Instant::now() + START_LIMIT;
        while process.exited().is_none() {
            if TcpStream::connect(("127.0.0.1", client)).await.is_ok() {
                return Ok((process, client));
            }
            ensure!(Instant::now() < deadline, "etcd is not ready; {}", process.last_words());
            sleep(Duration::from_millis(20)).await;
        }
        if !process.last_words().contains("address already in use") {
            bail!("etcd ended at once; {}", process.last_words());
        }
    }
    bail!("no free port for etcd after {ATTEMPTS} attempts")
}

/// True when ready, false when the port was taken.
async fn wait_until_serving(client: &Client, process: &mut Process) -> Result<bool> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some(status) = process.exited() {
            let words = process.last_words();
            ensure!(words.contains("address already in use"), "{status}; {words}");
            return Ok(false);
        }
        if answers(client, "/readyz").await && answers(client, "/api/v1/namespaces/default").await {
            return Ok(true);
        }
        ensure!(Instant::now() < deadline, "not ready in time; {}", process.last_words());
        sleep(Duration::from_millis(50)).await;
    }
}

async fn answers(client: &Client, path: &str) -> bool {
    let request = http::Request::get(path)
        .body(Vec::new())
        .expect("a constant path is valid");
    client.request_text(request).await.is_ok()
}

async fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}
