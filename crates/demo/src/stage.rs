//! Everything that the stories run on, started in order and stopped in reverse order.
//!
//! Nothing here belongs to one story.

mod cluster;
mod nodes;
mod operators;
mod tunnels;

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use aplomb::admin::{self, AdminRegistry};
use aplomb::tasks::TaskHandle;
use aplomb::{Tasks, Telemetry, ratelimit};
use aplomb_apimachinery::clock::Clock;
use aplomb_console::serve::{self, ConsoleState};
use aplomb_fake_services::coderd::FakeCoderd;
use aplomb_fake_services::hcloud::FakeHcloud;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::Client;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use self::nodes::{DemoNodes, EGRESS, NODES};
pub(crate) use self::operators::{FLOATING_IP, OTHER_CLIENTS};
pub(crate) use self::tunnels::{DataPlane, SHOP, hostname, is_ready, proxy, user_post_params};

use self::cluster::DemoCluster;
use crate::DemoOptions;
use crate::narration::ProgressLine;
use crate::rival_writer::RivalWriter;

pub(crate) const SYSTEM_NAMESPACE: &str = "aplomb-system";
/// The namespace of users' objects: kubectl's default, so that no command needs a flag.
pub(crate) const NAMESPACE: &str = "default";
/// How long shutdown may take before the rest is aborted.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The handles that stories use.
pub(crate) struct DemoStage {
    pub(crate) client: Client,
    pub(crate) coderd: FakeCoderd,
    pub(crate) hetzner: FakeHcloud,
    pub(crate) nodes: DemoNodes,
    pub(crate) tunnels: DataPlane,
    pub(crate) rival: RivalWriter,
    pub(crate) admin: AdminPage,
    /// The clock of the simulated services.
    pub(crate) clock: Clock,
    /// When the operators started.
    pub(crate) started: Instant,
}

type Ending = BoxFuture<'static, Result<()>>;

/// Everything that runs. [`RunningDemo::end`] stops it in order; dropping it stops it at once.
pub(crate) struct RunningDemo {
    running: FuturesUnordered<Ending>,
    stop: CancellationToken,
    cluster: DemoCluster,
}

/// Starts everything, and returns when the first tunnel is proven.
pub(crate) async fn set_up(
    options: &DemoOptions,
    home: &DemoDir,
    progress: &ProgressLine,
) -> Result<(DemoStage, RunningDemo)> {
    let (tasks, stop) = (Tasks::on_runtime(), CancellationToken::new());
    let running = FuturesUnordered::new();
    let start = Start {
        tasks: &tasks,
        stop: &stop,
        running: &running,
    };
    let admin = AdminPage::open(&start, options.page).await?;
    progress.show("starting the box");
    let cluster = DemoCluster::start(home.kubeconfig()).await?;
    home.own_kubeconfig();
    let client = cluster.client().await?;
    cluster::install_definitions(&client).await?;
    let clock = Clock::system();
    let (coderd, hetzner) = operators::start_simulators(&clock)?;
    let nodes = DemoNodes::start(&client).await?;
    operators::create_secrets(&client).await?;
    progress.show("starting the operators");
    let rival = RivalWriter::new(cluster.client().await?, NAMESPACE);
    operators::start_tunnel_operator(&start, &client, &admin, &rival);
    operators::start_coder_operator(&start, &client, &admin, &coderd);
    operators::start_egress_operator(&start, &client, &admin, &hetzner);
    let began = Instant::now();
    nodes.create_egress(&client).await?;
    progress.show("waiting for the first tunnel");
    let tunnels = DataPlane::start(&start, &client, home).await?;
    let stage = DemoStage {
        client,
        coderd,
        hetzner,
        nodes,
        tunnels,
        rival,
        admin,
        clock,
        started: began,
    };
    let company = RunningDemo { running, stop, cluster };
    Ok((stage, company))
}

impl RunningDemo {
    /// Returns when a part stops that must run as long as the demo.
    pub(crate) async fn wait_broken(&mut self) -> anyhow::Error {
        match self.running.next().await {
            Some(Err(error)) => error,
            _ => anyhow::anyhow!("a part of the demo stopped by itself; its log has the reason"),
        }
    }

    /// Stops everything, the cluster last.
    pub(crate) async fn shut_down(mut self) {
        self.stop.cancel();
        let left = async { while self.running.next().await.is_some() {} };
        if timeout(SHUTDOWN_TIMEOUT, left).await.is_err() {
            tracing::warn!("Shutdown deadline passed with tasks still running");
        }
        drop(self.running);
        self.cluster.shut_down().await;
    }
}

/// What every part needs to start.
struct Start<'a> {
    tasks: &'a Tasks,
    stop: &'a CancellationToken,
    running: &'a FuturesUnordered<Ending>,
}

impl Start<'_> {
    /// Starts a part that runs until the end.
    fn spawn_part(&self, name: &'static str, work: impl Future<Output = Result<()>> + Send + 'static) {
        let task: TaskHandle<Result<()>> = self.tasks.spawn(work);
        self.running.push(Box::pin(async move {
            let ended = task.join().await.context("the task panicked");
            ended.and_then(|ended| ended).context(name)
        }));
    }

    fn until_stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stop.clone().cancelled_owned()
    }
}

/// What the three operators of this process share: telemetry, the rate limit for the API server, and one admin address
/// with the page.
pub(crate) struct AdminPage {
    pub(crate) telemetry: Telemetry,
    pub(crate) board: AdminRegistry,
    server: ratelimit::ApiServerLimits,
    address: SocketAddr,
}

impl AdminPage {
    /// Binds the address, and serves the page from now on.
    async fn open(start: &Start<'_>, address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen on --page {address}; use another address, or port 0 for a free one")
        })?;
        let telemetry = Telemetry::default();
        let config = ratelimit::LimitConfig::api_server();
        let shared = Self {
            server: ratelimit::ApiServerLimits::new(&config, &telemetry, &aplomb::Clock::system()),
            address: listener.local_addr()?,
            board: AdminRegistry::default(),
            telemetry,
        };
        let (ends, stopped) = (CancellationToken::new(), start.until_stopped());
        let console = ConsoleState::new(shared.board.clone(), aplomb::Clock::system(), ends.clone());
        let pages = shared.board.router().merge(serve::router(console));
        start.spawn_part("the page", async move {
            // A page stays open for hours: shutdown does not wait for its readers.
            tokio::select! { biased;
                () = stopped => Ok(()),
                served = admin::serve(listener, pages, ends) => Ok(served?),
            }
        });
        Ok(shared)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// The paths of the demo's files: one private directory, and a kubeconfig that may be elsewhere. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct DemoDir {
    dir: TempDir,
    kubeconfig: PathBuf,
    owns_kubeconfig: Cell<bool>,
}

impl DemoDir {
    pub(crate) fn new(kubeconfig: Option<&Path>) -> Result<Self> {
        let owner = std::fs::Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new()
            .prefix("aplomb-demo-")
            .permissions(owner)
            .tempdir();
        let dir = dir.context("make a temporary directory; TMPDIR names where")?;
        let kubeconfig = match kubeconfig {
            Some(file) => std::path::absolute(file)?,
            None => dir.path().join("kubeconfig"),
        };
        Ok(Self {
            dir,
            kubeconfig,
            owns_kubeconfig: Cell::default(),
        })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.dir.path().join("operators.log")
    }

    pub(crate) fn key_path(&self) -> PathBuf {
        self.dir.path().join("agent.key")
    }

    /// From now on the kubeconfig is removed at the end. A file that existed before is never replaced.
    pub(crate) fn own_kubeconfig(&self) {
        self.owns_kubeconfig.set(true);
    }
}

impl Drop for DemoDir {
    /// The directory is removed by its own drop; a kubeconfig elsewhere would point to nothing.
    fn drop(&mut self) {
        if self.owns_kubeconfig.get()
            && let Err(error) = std::fs::remove_file(&self.kubeconfig)
        {
            tracing::warn!(%error, "Failed to remove the kubeconfig");
        }
    }
}
