//! The operator as a whole: settings, dependencies that tests replace, and the engine.

use std::path::PathBuf;
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::ratelimit::{self, LimiterRegistry};
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, Error, LeaseConfig, Result, Tasks, Telemetry, Trigger};

use crate::context::EgressContext;
use crate::controller;
use crate::hcloud::client::ENDPOINT;
use crate::hcloud::{self, HcloudAccounts};
use crate::node_filter::NodeFilters;
use crate::probe::{NodeProbe, NodeProber, TcpProbe};
use crate::state::EgressStates;
use crate::telemetry::{EgressMetrics, ProbeFailed};
use aplomb_http_client::{Transport, transport};

/// Name of the operator in Events and on the lease.
const NAME: &str = "aplomb-egress";

#[derive(Clone, Debug)]
pub struct EgressSettings {
    pub endpoint: String,
    /// Token file for StableEgress objects that name no Secret.
    pub token_file: Option<PathBuf>,
    /// The namespace of the lease and of Secrets, and the default namespace of pods.
    pub namespace: String,
    /// The only namespace whose pods are watched; default: all.
    pub pods_namespace: Option<String>,
    /// Unique name of this replica.
    pub identity: String,
    pub leader_elect: bool,
    /// Address of the admin server, published on the lease.
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

/// Dependencies that tests replace.
#[derive(Clone)]
pub struct EgressDeps {
    pub connect: Arc<dyn Fn() -> Transport + Send + Sync>,
    pub probe: Arc<dyn NodeProbe>,
    pub clock: Clock,
    /// Runs tasks; default: the current runtime.
    pub tasks: Option<Tasks>,
    pub telemetry: Telemetry,
    /// Where the engine is listed for inspection.
    pub admin_registry: AdminRegistry,
    /// Rate limiters of the API server, if operators of one process share them.
    pub api_limits: Option<ratelimit::ApiServerLimits>,
    pub egress: EgressMetrics,
}

impl EgressDeps {
    /// Dependencies for production.
    ///
    /// # Errors
    /// TLS cannot be set up.
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
        f.debug_struct("EgressDeps").finish_non_exhaustive()
    }
}

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
    let context = EgressContext {
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
    let engine = Engine::new(NAME, client).configure(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).with_admin_address(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.admin_registry = parts.admin_registry;
        set.api_limits = parts.api_limits;
        set.limiters = budgets;
        set.metrics = vec![metrics];
        set.telemetry = parts.telemetry;
        set.clock = parts.clock;
        set.tasks = parts.tasks;
    });
    engine
        .controller(controller::controller(&context))
        .controller(controller::probe_controller(&context))
}

/// A prober that counts results and triggers the objects for which a result changed.
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
            poke.enqueue(key);
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
