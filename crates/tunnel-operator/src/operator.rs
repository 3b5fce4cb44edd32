//! Assembles the operator: its settings, the dependencies that tests replace, and the engine.

use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, LeaseConfig, Result, Tasks, Telemetry, Trigger, ratelimit};

use crate::context::{TunnelContext, proven_sessions};
use crate::heartbeat::HeartbeatTracker;
use crate::httpproxy::{self, unowned_gateways};
use crate::probe::TunnelProber;
use crate::probe::client::{HttpProbeClient, ProbeClient};
use crate::state::TunnelState;
use crate::telemetry::TunnelMetrics;
use crate::{classes, connector, gc};

/// The component name in Events and the name of the lease.
const NAME: &str = "aplomb-tunnel";

#[derive(Clone, Debug)]
pub struct TunnelSettings {
    /// Base domain of platform hostnames, for classes that set none.
    pub domain: String,
    /// Namespace of the leader election lease and of the gateways.
    pub namespace: String,
    /// Identity of this replica. Must be unique.
    pub identity: String,
    pub leader_elect: bool,
    /// Address of the admin endpoint, recorded on the lease.
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

/// Dependencies that tests replace.
#[derive(Clone)]
pub struct TunnelDeps {
    pub probe_client: Arc<dyn ProbeClient>,
    /// Seed for the jitter of proofs.
    pub seed: u64,
    pub clock: Clock,
    /// Runtime for tasks; the current one unless set.
    pub tasks: Option<Tasks>,
    pub telemetry: Telemetry,
    pub admin: AdminRegistry,
    /// Rate limits of the API server, shared by the operators of one process.
    pub server: Option<ratelimit::ApiServerLimits>,
    pub tunnels: TunnelMetrics,
}

impl TunnelDeps {
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

/// Builds the operator. It can run with any client.
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
    let engine = Engine::new(NAME, client).configure(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).with_admin_address(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.admin_registry = parts.admin;
        set.api_limits = parts.server;
        set.metrics = vec![metrics];
        set.telemetry = parts.telemetry;
        set.clock = parts.clock;
        set.tasks = parts.tasks;
    });
    engine
        .controller(httpproxy::controller(&office))
        .controller(connector::controller(&office))
        .controller(unowned_gateways::controller(&office))
        .controller(gc::claim_controller())
        .controller(gc::replica_controller(&office))
}

/// Creates the two default classes if they do not exist, then runs the operator until `shutdown`.
///
/// # Errors
/// A watch did not become ready in time.
pub async fn run(
    client: kube::Client,
    settings: &TunnelSettings,
    parts: TunnelDeps,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    classes::ensure_classes(&client).await?;
    operator(client, settings, parts).run(shutdown).await
}
