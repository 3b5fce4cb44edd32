//! The operator as a whole: what a program sets, what a test replaces, and the engine made of it.

use std::path::PathBuf;
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::budget::{self, LimiterRegistry};
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, Error, LeaseConfig, Result, Tasks, Telemetry, Trigger};

use crate::client::ENDPOINT;
use crate::hcloud::{self, HcloudAccounts};
use crate::controller;
use crate::node_filter::NodeFilters;
use crate::state::EgressStates;
use crate::context::EgressContext;
use crate::probe::{NodeProbe, NodeProber, TcpProbe};
use crate::telemetry::{EgressMetrics, ProbeFailed};
use aplomb_http_client::{Transport, transport};

/// What Events and the lease call the operator.
const NAME: &str = "aplomb-egress";

/// What a program sets.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// Where the provider's API is.
    pub endpoint: String,
    /// Where the token is for a StableEgress that names no Secret.
    pub token_file: Option<PathBuf>,
    /// The namespace of the lease and of Secrets, and of pods where nothing else is said.
    pub namespace: String,
    /// The only namespace whose pods are watched; all, if not said.
    pub pods_namespace: Option<String>,
    /// What this replica is called. No two may share it.
    pub identity: String,
    /// Whether replicas elect a leader.
    pub leader_elect: bool,
    /// The address at which the program can be looked at, to be written on the lease.
    pub admin: Option<String>,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            endpoint: ENDPOINT.to_owned(),
            token_file: None,
            namespace: "aplomb-system".to_owned(),
            pods_namespace: None,
            identity: NAME.to_owned(),
            leader_elect: true,
            admin: None,
        }
    }
}

/// What a test replaces.
#[derive(Clone)]
pub struct EgressDeps {
    /// Connects to the provider.
    pub connect: Arc<dyn Fn() -> Transport + Send + Sync>,
    /// Reaches nodes.
    pub probe: Arc<dyn NodeProbe>,
    /// Wall time.
    pub clock: Clock,
    /// Where tasks run; the current runtime unless set.
    pub tasks: Option<Tasks>,
    /// Where the runtime counts.
    pub telemetry: Telemetry,
    /// Where the operator is shown.
    pub admin_registry: AdminRegistry,
    /// The API server's budgets, where operators of one process share them.
    pub api_limits: Option<budget::ApiServerLimits>,
    /// Where the operator counts.
    pub egress: EgressMetrics,
}

impl EgressDeps {
    /// The real ones.
    ///
    /// # Errors
    /// There is no way to make TLS connections.
    pub fn production() -> Result<Self> {
        let transport = transport::new_reqwest(None).map_err(Error::fault)?;
        Ok(Self {
            connect: Arc::new(move || transport.clone()),
            probe: Arc::new(TcpProbe),
            clock: Clock::system(),
            tasks: None,
            telemetry: Telemetry::default(),
            admin_registry: AdminRegistry::default(),
            api_limits: None,
            egress: EgressMetrics::default(),
        })
    }
}

impl std::fmt::Debug for EgressDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The operator, ready to run with any client.
#[must_use]
pub fn operator(client: kube::Client, settings: &EgressSettings, parts: EgressDeps) -> Engine {
    let budgets = LimiterRegistry::default();
    let clouds = HcloudAccounts::new(hcloud::HcloudSettings {
        endpoint: settings.endpoint.clone(),
        connect: parts.connect,
        telemetry: parts.telemetry.clone(),
        egress: parts.egress.clone(),
        clock: parts.clock.clone(),
        budgets: budgets.clone(),
    });
    let poke = Trigger::default();
    let prober = new_prober(parts.probe, parts.egress.clone(), poke.clone());
    let office = EgressContext {
        accounts: clouds,
        prober,
        trigger: poke,
        filters: NodeFilters::default(),
        states: EgressStates::default(),
        telemetry: parts.egress.clone(),
        clock: parts.clock.clone(),
        namespace: settings.namespace.clone(),
        pods: settings.pods_namespace.clone(),
        identity: settings.identity.clone(),
        token_file: settings.token_file.clone(),
    };
    let metrics = MetricsSource::new(move |registry| parts.egress.register(registry));
    let engine = Engine::new(NAME, client).settings(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).at(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.board = parts.admin_registry;
        set.server = parts.api_limits;
        set.budgets = budgets;
        set.metrics = vec![metrics];
        set.telemetry = parts.telemetry;
        set.clock = parts.clock;
        set.tasks = parts.tasks;
    });
    engine
        .controller(controller::controller(&office))
        .controller(controller::probe_controller(&office))
}

/// Counts what probes show, and runs what depends on one when it shows something new.
fn new_prober(probe: Arc<dyn NodeProbe>, egress: EgressMetrics, poke: Trigger) -> NodeProber {
    NodeProber::new(probe).on_probe(move |key, node, outcome| {
        if outcome.reason.is_some() {
            egress.emit(ProbeFailed {
                name: &key.name,
                node,
                failures: outcome.failures,
            });
        }
        if outcome.before != Some(outcome.failures) {
            poke.poke(key);
        }
    })
}

/// Runs the operator until `shutdown`.
///
/// # Errors
/// A watch was not ready in time.
pub async fn run(
    client: kube::Client,
    settings: &EgressSettings,
    parts: EgressDeps,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    operator(client, settings, parts).run(shutdown).await
}
