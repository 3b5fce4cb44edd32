//! Everything that the page shows, each as its own process: the box, the operator, a gateway and an agent; and their
//! service.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aplomb_api::{Connector, HttpProxy};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Generous: other tests use the same cores.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);
/// The agent of every tunnel.
const AGENT: &str = "laptop";

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// All processes, killed on drop.
pub(crate) struct Stage {
    client: Client,
    /// The URL of the page.
    pub(crate) page: String,
    /// The public listener.
    pub(crate) listen: String,
    origin: u16,
    _processes: Vec<Running>,
    _service: JoinSet<()>,
    dir: TempDir,
}

impl Stage {
    pub(crate) async fn set_up() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let at = dir.path();
        let config = at.join("kubeconfig");
        let kubeconfig = config.to_str().context("a path")?;
        let programs = Programs { dir: at, kubeconfig };
        let mut processes = vec![programs.start("box", &["box", "--listen", "127.0.0.1:0"])?];
        wait_for_line(&at.join("box.out"), "ready").await?;
        let crds = programs.command(&["crds", "tunnel", "--apply"]).output()?;
        let words = String::from_utf8_lossy(&crds.stderr);
        ensure!(crds.status.success(), "{words}");
        let run = ["run", "tunnel", "--admin", "127.0.0.1:0", "--log-format", "json"];
        processes.push(programs.start("operator", &run)?);
        let listen = free_address()?;
        processes.push(programs.start("gateway", &["gateway", "--listen", &listen])?);
        let (origin, service) = service().await?;
        let (port, key) = (origin.to_string(), at.join("agent.key"));
        let key = key.to_str().context("a path")?;
        let connect = ["connect", &port, "--name", AGENT, "--connector-only"];
        processes.push(programs.start("agent", &[&connect[..], &["--key-file", key]].concat())?);
        let stage = Self {
            client: client(&config).await?,
            page: page_url(&at.join("operator.log")).await?,
            listen,
            origin,
            _processes: processes,
            _service: service,
            dir,
        };
        stage.wait_online().await?;
        Ok(stage)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until the agent is online.
    async fn wait_online(&self) -> Result<()> {
        let connectors: Api<Connector> = Api::default_namespaced(self.client.clone());
        let online = |object: Option<&Connector>| {
            let status = object.and_then(|it| it.status.as_ref());
            let mut conditions = status.into_iter().flat_map(|it| &it.conditions);
            conditions.any(|it| it.type_ == "Online" && it.status == "True")
        };
        let waited = timeout(TIMEOUT, await_condition(connectors, AGENT, online));
        waited.await.context("the agent is not online")??;
        Ok(())
    }

    /// Creates a tunnel of this name to the service.
    pub(crate) async fn create_tunnel(&self, name: &str) -> Result<()> {
        let origin = format!("http://localhost:{}", self.origin);
        create(&self.client, name, AGENT, &origin).await
    }
}

/// Creates a tunnel; its hostname follows from its name.
pub(crate) async fn create(client: &Client, name: &str, connector: &str, origin: &str) -> Result<()> {
    let backend = json!({ "endpoint": origin, "connector": { "name": connector } });
    let object: HttpProxy = serde_json::from_value(json!({
        "apiVersion": "aplomb.dev/v1alpha1",
        "kind": "HTTPProxy",
        "metadata": { "name": name },
        "spec": {
            "hostnames": [format!("{name}.example.com")],
            "rules": [{ "backends": [backend] }],
        },
    }))?;
    let tunnels: Api<HttpProxy> = Api::default_namespaced(client.clone());
    tunnels.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Starts `aplomb` processes.
struct Programs<'a> {
    dir: &'a Path,
    kubeconfig: &'a str,
}

impl Programs<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aplomb"));
        command.args(args).args(["--kubeconfig", self.kubeconfig]);
        command
    }

    /// Starts a process; its output goes to files with its name.
    fn start(&self, name: &str, args: &[&str]) -> Result<Running> {
        let child = self
            .command(args)
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stdout(File::create(self.dir.join(format!("{name}.out")))?)
            .stderr(File::create(self.dir.join(format!("{name}.log")))?)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        Ok(Running(child))
    }
}

/// The first line of a file that contains `word`. Polls, because files have no notifications here.
async fn wait_for_line(file: &Path, word: &str) -> Result<String> {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some(line) = text.lines().find(|line| line.contains(word)) {
            return Ok(line.to_owned());
        }
        if began.elapsed() > TIMEOUT {
            bail!("{} has no line with {word:?}:\n{text}", file.display());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The address of the page, from the operator's log.
async fn page_url(log: &Path) -> Result<String> {
    let line: Value = serde_json::from_str(&wait_for_line(log, "Serving admin endpoints").await?)?;
    let address = line["address"].as_str().context("no address in the log")?;
    Ok(format!("http://{address}"))
}

pub(crate) async fn client(file: &Path) -> Result<Client> {
    let read = Kubeconfig::read_from(file)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(read, &options).await?;
    Ok(Client::try_from(config)?)
}

fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

/// A local service that responds with the same line to everything.
async fn service() -> Result<(u16, JoinSet<()>)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            connections.spawn(async move {
                const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n";
                let mut request = [0; 4096];
                while socket.read(&mut request).await.is_ok_and(|read| read > 0) {
                    if socket.write_all(ANSWER).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Ok((port, tasks))
}
