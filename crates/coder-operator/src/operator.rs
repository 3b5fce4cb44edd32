//! The operator as a whole: what a program sets, what a test replaces, and the engine made of it.

use std::fmt;
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::ratelimit::{self, LimiterRegistry};
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, LeaseConfig, Result, Tasks, Telemetry, Trigger};
use aplomb_http_client::transport;

use crate::office::{CoderContext, ObjectStates};
use crate::server::{self, CoderConnectFn, ServerPool, Tell};
use crate::telemetry::CoderMetrics;
use crate::{keeper, provisioner, proxy};

/// What Events and the lease call the operator.
const NAME: &str = "aplomb-coder";

/// What a program sets.
#[derive(Clone, Debug)]
pub struct CoderSettings {
    /// The namespace of the lease.
    pub namespace: String,
    /// The only namespace that is looked at; all, if not said.
    pub watch_namespace: Option<String>,
    /// What this replica is called. No two may share it.
    pub identity: String,
    /// Whether replicas elect a leader.
    pub leader_elect: bool,
    /// The address at which the program can be looked at, to be written on the lease.
    pub admin: Option<String>,
    /// For the jitter of backoffs.
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

/// What a test replaces.
#[derive(Clone)]
pub struct CoderDeps {
    /// Connects to servers, with more authorities if any are given.
    pub connect: CoderConnectFn,
    /// Wall time.
    pub clock: Clock,
    /// Where tasks run; the current runtime unless set.
    pub tasks: Option<Tasks>,
    /// Where the runtime counts.
    pub telemetry: Telemetry,
    /// Where the operator is shown.
    pub board: AdminRegistry,
    /// The API server's budgets, where operators of one process share them.
    pub server: Option<ratelimit::ApiServerLimits>,
    /// Where the operator counts.
    pub coder: CoderMetrics,
}

impl CoderDeps {
    /// The real ones.
    #[must_use]
    pub fn real() -> Self {
        Self {
            connect: Arc::new(transport::reqwest),
            clock: Clock::system(),
            tasks: None,
            telemetry: Telemetry::default(),
            board: AdminRegistry::default(),
            server: None,
            coder: CoderMetrics::default(),
        }
    }
}

impl fmt::Debug for CoderDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The operator, ready to run with any client.
#[must_use]
pub fn operator(client: kube::Client, settings: &CoderSettings, parts: CoderDeps) -> Engine {
    let shelf = LimiterRegistry::default();
    let (provisioners, proxies) = (Trigger::default(), Trigger::default());
    let office = CoderContext {
        servers: ServerPool::new(server::ServerPoolSettings {
            connect: parts.connect,
            clock: parts.clock.clone(),
            telemetry: parts.coder.clone(),
            shelf: shelf.clone(),
            seed: settings.seed,
            tell: tell(&provisioners, &proxies),
        }),
        telemetry: parts.coder.clone(),
        clock: parts.clock.clone(),
        namespace: settings.watch_namespace.clone(),
        provisioners,
        proxies,
        secrets: Trigger::default(),
        desk: ObjectStates::default(),
    };
    let metrics = MetricsSource::new(move |registry| parts.coder.register(registry));
    let engine = Engine::new(NAME, client).configure(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).with_admin_address(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.admin_registry = parts.board;
        set.api_limits = parts.server;
        set.limiters = shelf;
        set.metrics = vec![metrics];
        set.telemetry = parts.telemetry;
        set.clock = parts.clock;
        set.tasks = parts.tasks;
    });
    engine
        .controller(provisioner::controller::controller(&office))
        .controller(proxy::controller::controller(&office))
        .controller(keeper::controller(&office))
}

/// Runs an object whose turn has come.
fn tell(provisioners: &Trigger, proxies: &Trigger) -> Tell {
    let (provisioners, proxies) = (provisioners.clone(), proxies.clone());
    Arc::new(move |who| match who.kind {
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
