//! A simulated cluster, two servers and their pods in virtual time, with helpers for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aplomb_api::coder::{CoderProvisioner, CoderWorkspaceProxy};
use aplomb_apiserver::storage::Window;
use aplomb_simulation::{Cluster, Run, Simulation};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::{Client, CustomResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::operator::Replica;
use crate::pods::Pods;
use crate::site::{self, Site};

/// Namespace of the operator's lease.
pub const SYSTEM: &str = "aplomb-system";
/// Namespace of the objects.
pub const NAMESPACE: &str = "coder";
/// The name of most objects here.
pub const TEAM: &str = "team";
/// Secret with the token of the first server.
pub const SECRET: &str = "coder-token";
/// Secret with the token of the other server.
pub const OTHER_SECRET: &str = "other-token";

/// A cluster, two servers and pods.
#[derive(Clone)]
pub struct Lab {
    pub cluster: Cluster,
    pub coderd: Site,
    pub other: Site,
    pub pods: Arc<Pods>,
    /// Which token was sent to which host.
    pub sent: Sent,
    /// Wakes waiters for every change.
    pub wake: Arc<Notify>,
}

/// Tokens by the hosts they were sent to.
pub type Sent = Arc<Mutex<BTreeSet<(String, String)>>>;

/// Settings of the simulation.
#[derive(Clone)]
pub struct Around {
    pub seed: u64,
    /// Options of both servers.
    pub server: site::Options,
    /// Whether the run is too long to keep its trace.
    pub long_running: bool,
}

impl Around {
    pub fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            server: site::Options::default(),
            long_running: false,
        }
    }

    /// The same with other server options.
    pub fn with_server(mut self, change: impl FnOnce(&mut site::Options)) -> Self {
        change(&mut self.server);
        self
    }

    /// The same without a trace, for long runs.
    pub fn long_running(mut self) -> Self {
        self.long_running = true;
        self
    }

    /// Runs a scenario in it.
    pub fn run<T, F, S>(self, scenario: S) -> T
    where
        S: FnOnce(Lab) -> F + Send + 'static,
        F: Future<Output = T>,
        T: Send + 'static,
    {
        self.record(scenario).value
    }

    /// The same with its trace.
    pub fn record<T, F, S>(self, scenario: S) -> Run<T>
    where
        S: FnOnce(Lab) -> F + Send + 'static,
        F: Future<Output = T>,
        T: Send + 'static,
    {
        let mut world = Simulation::new(self.seed).interpose(aplomb_virtual_time::install);
        if self.long_running {
            let window = Window {
                compaction: seconds(30),
                ..Window::default()
            };
            world = world.memory(1_000).server(move |it| it.window(window));
        }
        world.run(|cluster| async move {
            let lab = Lab::new(cluster, &self).await;
            scenario(lab).await
        })
    }
}

/// Runs a scenario with default settings.
pub fn on_box<T, F, S>(seed: u64, scenario: S) -> T
where
    S: FnOnce(Lab) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    Around::with_seed(seed).run(scenario)
}

impl Lab {
    async fn new(cluster: Cluster, around: &Around) -> Self {
        let user = cluster.plain_client("user");
        let site = |url| Site::new(&cluster, around.seed, &around.server, url);
        let (coderd, other) = (site(site::URL), site(site::OTHER_URL));
        let pods = Pods::start(&cluster, &[&coderd, &other]);
        let lab = Self {
            cluster,
            coderd,
            other,
            pods: Arc::new(pods),
            sent: Sent::default(),
            wake: Arc::default(),
        };
        let stir = lab.wake.clone();
        lab.cluster.server().on_commit(Arc::new(move |change| {
            if change.key.resource.resource == "coderprovisioners" {
                stir.notify_one();
            }
        }));
        install(&user).await;
        lab.token(SECRET, site::TOKEN).await;
        lab.token(OTHER_SECRET, site::OTHER_TOKEN).await;
        lab
    }

    /// A user's client, without injected faults.
    pub fn user(&self) -> Client {
        self.cluster.plain_client("user")
    }

    /// A CoderProvisioner called `team` that a replica has made ready.
    pub async fn start_settled(&self, spec: &Value) -> Replica {
        self.provisioner(TEAM, spec).await;
        let replica = Replica::start(self, "first");
        self.wait_ready(TEAM, seconds(120)).await;
        replica
    }

    /// Waits until a CoderProvisioner is ready; how long it took.
    pub async fn wait_ready(&self, name: &str, limit: Duration) -> Duration {
        let began = Instant::now();
        while !self.is_ready(name) {
            let said = || format!("{:#?}", self.status(name));
            assert!(
                began.elapsed() < limit,
                "{name} is not ready within {limit:?}: {}",
                said()
            );
            sleep(Duration::from_millis(50)).await;
        }
        began.elapsed()
    }

    pub fn is_ready(&self, name: &str) -> bool {
        self.condition(name, "Ready").status == "True"
    }
}

async fn install(user: &Client) {
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(user.clone());
    for name in [SYSTEM, NAMESPACE] {
        let namespace = json!({ "metadata": { "name": name } });
        let namespace = serde_json::from_value(namespace).expect("a namespace");
        namespaces.create(&params, &namespace).await.unwrap();
    }
    let crds: Api<CustomResourceDefinition> = Api::all(user.clone());
    for crd in [CoderProvisioner::crd(), CoderWorkspaceProxy::crd()] {
        crds.create(&params, &crd).await.unwrap();
    }
    let last: Api<CoderWorkspaceProxy> = Api::all(user.clone());
    while last.list(&Default::default()).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
}

/// Polls until `holds`; returns how long it took.
pub async fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(50)).await;
    }
    began.elapsed()
}

/// Counts equal items.
pub fn tally<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}
