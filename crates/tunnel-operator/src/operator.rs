//! The operator as a whole: what a program sets, what a test replaces, and the engine made of it.

use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::budget;
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, LeaseConfig, Result, Tasks, Telemetry, Trigger};

use crate::classes;
use crate::client::{HttpProbeClient, ProbeClient};
use crate::state::TunnelState;
use crate::context::{TunnelContext, proven_sessions};
use crate::probe::TunnelProber;
use crate::heartbeat::HeartbeatTracker;
use crate::telemetry::TunnelMetrics;
use crate::{connector, controller, unowned_gateways, gc};

/// What Events and the lease call the operator.
const NAME: &str = "aplomb-tunnel";

/// What a program sets.
#[derive(Clone, Debug)]
pub struct TunnelSettings {
    /// The base domain of the platform's hostnames, where a class names none.
    pub domain: String,
    /// The namespace of the lease and of the gateways.
    pub namespace: String,
    /// What this replica is called. No two may share it.
    pub identity: String,
    /// Whether replicas elect a leader.
    pub leader_elect: bool,
    /// The address at which the program can be looked at, to be written on the lease.
    pub admin: Option<String>,
}

impl Default for TunnelSettings {
    fn default() -> Self {
        Self {
            domain: "tunnels.example.com".to_owned(),
            namespace: "aplomb-system".to_owned(),
            identity: NAME.to_owned(),
            leader_elect: true,
            admin: None,
        }
    }
}

/// What a test replaces.
#[derive(Clone)]
pub struct TunnelDeps {
    /// Asks gateways for proofs.
    pub probe_client: Arc<dyn ProbeClient>,
    /// Spreads proofs over time.
    pub seed: u64,
    /// Wall time.
    pub clock: Clock,
    /// Where tasks run; the current runtime unless set.
    pub tasks: Option<Tasks>,
    /// Where the runtime counts.
    pub telemetry: Telemetry,
    /// Where the operator is shown.
    pub admin: AdminRegistry,
    /// The API server's budgets, where operators of one process share them.
    pub server: Option<budget::ApiServerLimits>,
    /// Where the operator counts.
    pub tunnels: TunnelMetrics,
}

impl TunnelDeps {
    /// The real ones.
    #[must_use]
    pub fn production(seed: u64) -> Self {
        Self {
            probe_client: Arc::new(HttpProbeClient::new()),
            seed,
            clock: Clock::system(),
            tasks: None,
            telemetry: Telemetry::default(),
            admin: AdminRegistry::default(),
            server: None,
            tunnels: TunnelMetrics::default(),
        }
    }
}

impl std::fmt::Debug for TunnelDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The operator, ready to run with any client.
#[must_use]
pub fn operator(client: kube::Client, settings: &TunnelSettings, parts: TunnelDeps) -> Engine {
    let (proxies, connectors) = (Trigger::default(), Trigger::default());
    let memory = TunnelState::default();
    let office = TunnelContext {
        namespace: settings.namespace.as_str().into(),
        domain: settings.domain.as_str().into(),
        lease_heartbeats: HeartbeatTracker::default(),
        replica_heartbeats: HeartbeatTracker::default(),
        sessions: proven_sessions(&memory, &proxies, &connectors),
        prober: TunnelProber::new(parts.probe_client, parts.seed),
        state: memory,
        proxy_trigger: proxies,
        connector_trigger: connectors,
        telemetry: parts.tunnels.clone(),
        clock: parts.clock.clone(),
    };
    let metrics = MetricsSource::new(move |registry| parts.tunnels.register(registry));
    let engine = Engine::new(NAME, client).settings(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).at(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.board = parts.admin;
        set.server = parts.server;
        set.metrics = vec![metrics];
        set.telemetry = parts.telemetry;
        set.clock = parts.clock;
        set.tasks = parts.tasks;
    });
    engine
        .controller(controller::controller(&office))
        .controller(connector::controller(&office))
        .controller(unowned_gateways::controller(&office))
        .controller(gc::claim_controller())
        .controller(gc::replica_controller(&office))
}

/// Makes the two classes if nobody has, then runs the operator until `shutdown`.
///
/// # Errors
/// A watch was not ready in time.
pub async fn run(
    client: kube::Client,
    settings: &TunnelSettings,
    parts: TunnelDeps,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    classes::ensure_classes(&client).await?;
    operator(client, settings, parts).run(shutdown).await
}
