//! The operator as a whole: settings, dependencies that tests replace, and the engine.

use std::fmt;
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::ratelimit::{self, LimiterRegistry};
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, LeaseConfig, Result, Tasks, Telemetry, Trigger};
use aplomb_http_client::transport;

use crate::context::{CoderContext, ObjectStates};
use crate::server::{self, CoderConnectFn, ServerPool, Tell};
use crate::telemetry::CoderMetrics;
use crate::{provisioner, token_secrets, workspace_proxy};

/// Name of the operator in Events and on the lease.
const NAME: &str = "aplomb-coder";

/// Settings of the operator.
#[derive(Clone, Debug)]
pub struct CoderSettings {
    /// The namespace of the lease.
    pub namespace: String,
    /// The only namespace to watch; default: all.
    pub watch_namespace: Option<String>,
    /// Unique name of this replica.
    pub identity: String,
    /// Whether replicas elect a leader.
    pub leader_elect: bool,
    /// Address of the admin server, published on the lease.
    pub admin: Option<String>,
    /// Seed of the backoff jitter.
    pub seed: u64,
}

impl Default for CoderSettings {
    fn default() -> Self {
        Self {
            namespace: "aplomb-system".to_owned(),
            watch_namespace: None,
            identity: NAME.to_owned(),
            leader_elect: true,
            admin: None,
            seed: 0,
        }
    }
}

/// Dependencies that tests replace.
#[derive(Clone)]
pub struct CoderDeps {
    /// Creates the transport to a server, with additional certificate authorities if any are set.
    pub connect: CoderConnectFn,
    /// Wall time.
    pub clock: Clock,
    /// Runs tasks; default: the current runtime.
    pub tasks: Option<Tasks>,
    /// Metrics of the runtime.
    pub telemetry: Telemetry,
    /// Where the engine is listed for inspection.
    pub admin_registry: AdminRegistry,
    /// Rate limiters of the API server, if operators of one process share them.
    pub api_limits: Option<ratelimit::ApiServerLimits>,
    /// Metrics of the operator.
    pub coder: CoderMetrics,
}

impl CoderDeps {
    /// Dependencies for production.
    #[must_use]
    pub fn production() -> Self {
        Self {
            connect: Arc::new(transport::new_reqwest),
            clock: Clock::system(),
            tasks: None,
            telemetry: Telemetry::default(),
            admin_registry: AdminRegistry::default(),
            api_limits: None,
            coder: CoderMetrics::default(),
        }
    }
}

impl fmt::Debug for CoderDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The engine of the operator for any client.
#[must_use]
pub fn operator(client: kube::Client, settings: &CoderSettings, parts: CoderDeps) -> Engine {
    let shelf = LimiterRegistry::default();
    let (provisioners, proxies) = (Trigger::default(), Trigger::default());
    let office = CoderContext {
        servers: ServerPool::new(server::ServerPoolSettings {
            connect: parts.connect,
            clock: parts.clock.clone(),
            telemetry: parts.coder.clone(),
            limiters: shelf.clone(),
            seed: settings.seed,
            notify: trigger_fn(&provisioners, &proxies),
        }),
        telemetry: parts.coder.clone(),
        clock: parts.clock.clone(),
        namespace: settings.watch_namespace.clone(),
        provisioners,
        proxies,
        secrets: Trigger::default(),
        states: ObjectStates::default(),
    };
    let metrics = MetricsSource::new(move |registry| parts.coder.register(registry));
    let engine = Engine::new(NAME, client).configure(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).with_admin_address(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.admin_registry = parts.admin_registry;
        set.api_limits = parts.api_limits;
        set.limiters = shelf;
        set.metrics = vec![metrics];
        set.telemetry = parts.telemetry;
        set.clock = parts.clock;
        set.tasks = parts.tasks;
    });
    engine
        .controller(provisioner::controller::controller(&office))
        .controller(workspace_proxy::controller::controller(&office))
        .controller(token_secrets::controller(&office))
}

/// Triggers an object whose call may be made now.
fn trigger_fn(provisioners: &Trigger, proxies: &Trigger) -> Tell {
    let (provisioners, proxies) = (provisioners.clone(), proxies.clone());
    Arc::new(move |who| match &*who.kind {
        "CoderProvisioner" => provisioners.enqueue(&who.key),
        _ => proxies.enqueue(&who.key),
    })
}

/// Runs the operator until `shutdown`.
///
/// # Errors
/// A watch was not ready in time.
pub async fn run(
    client: kube::Client,
    settings: &CoderSettings,
    parts: CoderDeps,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    operator(client, settings, parts).run(shutdown).await
}
