//! Everything that the stories are played on, started in order and ended in the opposite one.
//!
//! Nothing here tells a story or judges one.

mod cluster;
mod home;
mod nodes;
mod office;
mod operators;
mod tunnels;

use std::time::Duration;

use anyhow::{Context, Result};
use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_apiserver::clock::Clock;
use aplomb_apiserver::coderd::Coderd;
use aplomb_apiserver::hetzner::Hetzner;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::Client;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use self::home::DemoDir;
pub(crate) use self::nodes::{DemoNodes, EGRESS, NODES};
pub(crate) use self::office::Office;
pub(crate) use self::operators::{FLOATING_IP, OTHER_CLIENTS};
pub(crate) use self::tunnels::{DataPlane, SHOP, user_post_params, hostname, proxy, is_ready};

use self::cluster::DemoCluster;
use crate::DemoOptions;
use crate::rival_writer::RivalWriter;
use crate::narration::ProgressLine;

/// The namespace of operators and gateways.
pub(crate) const SYSTEM_NAMESPACE: &str = "aplomb-system";
/// The namespace of what people make: kubectl's own default, so that no command needs a flag.
pub(crate) const NAMESPACE: &str = "default";
/// How long the end may take before what is left is cut off.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What stories are played on.
pub(crate) struct DemoStage {
    pub(crate) client: Client,
    pub(crate) coderd: Coderd,
    pub(crate) hetzner: Hetzner,
    pub(crate) nodes: DemoNodes,
    pub(crate) tunnels: DataPlane,
    pub(crate) rival: RivalWriter,
    pub(crate) office: Office,
    /// The time of the simulated services.
    pub(crate) clock: Clock,
    /// When the operators began to look.
    pub(crate) started: Instant,
}

type Ending = BoxFuture<'static, Result<()>>;

/// Everything that runs. [`RunningDemo::end`] ends it in order; dropping it ends it at once.
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
    let office = Office::open(&start, options.page).await?;
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
    operators::start_tunnel_operator(&start, &client, &office, &rival);
    operators::start_coder_operator(&start, &client, &office, &coderd);
    operators::start_egress_operator(&start, &client, &office, &hetzner);
    let began = Instant::now();
    nodes.create_egress(&client).await?;
    progress.show("proving the first tunnel");
    let tunnels = DataPlane::start(&start, &client, home).await?;
    let stage = DemoStage {
        client,
        coderd,
        hetzner,
        nodes,
        tunnels,
        rival,
        office,
        clock,
        started: began,
    };
    let company = RunningDemo {
        running,
        stop,
        cluster,
    };
    Ok((stage, company))
}

impl RunningDemo {
    /// Returns when something ended that must live as long as the demo does.
    pub(crate) async fn wait_broken(&mut self) -> anyhow::Error {
        match self.running.next().await {
            Some(Err(error)) => error,
            _ => anyhow::anyhow!("a part of the demo ended by itself: its log says why"),
        }
    }

    /// Ends everything, the cluster last.
    pub(crate) async fn shut_down(mut self) {
        self.stop.cancel();
        let left = async { while self.running.next().await.is_some() {} };
        if timeout(SHUTDOWN_TIMEOUT, left).await.is_err() {
            tracing::warn!("Not everything ended in time");
        }
        drop(self.running);
        self.cluster.shut_down().await;
    }
}

/// What parts are started with.
struct Start<'a> {
    tasks: &'a Tasks,
    stop: &'a CancellationToken,
    running: &'a FuturesUnordered<Ending>,
}

impl Start<'_> {
    /// Starts a part that lives until the end.
    fn spawn_part(&self, name: &'static str, work: impl Future<Output = Result<()>> + Send + 'static) {
        let task: TaskHandle<Result<()>> = self.tasks.start(work);
        self.running.push(Box::pin(async move {
            let ended = task.join().await.context("it panicked");
            ended.and_then(|ended| ended).context(name)
        }));
    }

    fn until_stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stop.clone().cancelled_owned()
    }
}
