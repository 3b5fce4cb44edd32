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
use aplomb::tasks::Task;
use aplomb_apimachinery::clock::Clock;
use aplomb_fake_services::coderd::FakeCoderd;
use aplomb_fake_services::hcloud::FakeHcloud;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::Client;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use self::home::Home;
pub(crate) use self::nodes::{EGRESS, NODES, Nodes};
pub(crate) use self::office::Office;
pub(crate) use self::operators::{FLOATING_IP, OTHERS};
pub(crate) use self::tunnels::{SHOP, Tunnels, by_hand, hostname, proxy, ready};

use self::cluster::Cluster;
use crate::Options;
use crate::rival::Rival;
use crate::tell::Progress;

/// The namespace of operators and gateways.
pub(crate) const SYSTEM: &str = "aplomb-system";
/// The namespace of what people make: kubectl's own default, so that no command needs a flag.
pub(crate) const NAMESPACE: &str = "default";
/// How long the end may take before what is left is cut off.
const FAREWELL: Duration = Duration::from_secs(5);

/// What stories are played on.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) coderd: FakeCoderd,
    pub(crate) hetzner: FakeHcloud,
    pub(crate) nodes: Nodes,
    pub(crate) tunnels: Tunnels,
    pub(crate) rival: Rival,
    pub(crate) office: Office,
    /// The time of the simulated services.
    pub(crate) clock: Clock,
    /// When the operators began to look.
    pub(crate) began: Instant,
}

type Ending = BoxFuture<'static, Result<()>>;

/// Everything that runs. [`Company::end`] ends it in order; dropping it ends it at once.
pub(crate) struct Company {
    running: FuturesUnordered<Ending>,
    stop: CancellationToken,
    cluster: Cluster,
}

/// Starts everything, and returns when the first tunnel is proven.
pub(crate) async fn set(
    options: &Options,
    home: &Home,
    progress: &Progress,
) -> Result<(Stage, Company)> {
    let (tasks, stop) = (Tasks::on_runtime(), CancellationToken::new());
    let running = FuturesUnordered::new();
    let start = Start {
        tasks: &tasks,
        stop: &stop,
        running: &running,
    };
    let office = Office::open(&start, options.page).await?;
    progress.show("starting the box");
    let cluster = Cluster::start(home.kubeconfig()).await?;
    home.wrote_kubeconfig();
    let client = cluster.client().await?;
    cluster::prepare(&client).await?;
    let clock = Clock::system();
    let (coderd, hetzner) = operators::clouds(&clock)?;
    let nodes = Nodes::start(&client).await?;
    operators::secrets(&client).await?;
    progress.show("starting the operators");
    let rival = Rival::new(cluster.client().await?, NAMESPACE);
    operators::tunnels(&start, &client, &office, &rival);
    operators::coder(&start, &client, &office, &coderd);
    operators::egress(&start, &client, &office, &hetzner);
    let began = Instant::now();
    nodes.egress(&client).await?;
    progress.show("proving the first tunnel");
    let tunnels = Tunnels::start(&start, &client, home).await?;
    let stage = Stage {
        client,
        coderd,
        hetzner,
        nodes,
        tunnels,
        rival,
        office,
        clock,
        began,
    };
    let company = Company {
        running,
        stop,
        cluster,
    };
    Ok((stage, company))
}

impl Company {
    /// Returns when something ended that must live as long as the demo does.
    pub(crate) async fn broken(&mut self) -> anyhow::Error {
        match self.running.next().await {
            Some(Err(error)) => error,
            _ => anyhow::anyhow!("a part of the demo ended by itself: its log says why"),
        }
    }

    /// Ends everything, the cluster last.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        let left = async { while self.running.next().await.is_some() {} };
        if timeout(FAREWELL, left).await.is_err() {
            tracing::warn!("Not everything ended in time");
        }
        drop(self.running);
        self.cluster.end().await;
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
    fn part(&self, name: &'static str, work: impl Future<Output = Result<()>> + Send + 'static) {
        let task: Task<Result<()>> = self.tasks.start(work);
        self.running.push(Box::pin(async move {
            let ended = task.join().await.context("it panicked");
            ended.and_then(|ended| ended).context(name)
        }));
    }

    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stop.clone().cancelled_owned()
    }
}
