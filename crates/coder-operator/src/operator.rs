//! The operator as a whole: what a program sets, what a test replaces, and the engine made of it.

use std::fmt;
use std::sync::Arc;

use aplomb::admin::AdminRegistry;
use aplomb::budget::{self, LimiterRegistry};
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, LeaseConfig, Result, Tasks, Telemetry, Trigger};
use aplomb_http_client::transport;

use crate::context::{CoderContext, ObjectStates};
use crate::server::{self, CoderConnectFn, ServerPool, Tell};
use crate::telemetry::CoderMetrics;
use crate::{token_secrets, provisioner, workspace_proxy};

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
    pub admin_registry: AdminRegistry,
    /// The API server's budgets, where operators of one process share them.
    pub api_limits: Option<budget::ApiServerLimits>,
    /// Where the operator counts.
    pub coder: CoderMetrics,
}

impl CoderDeps {
    /// The real ones.
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
    let engine = Engine::new(NAME, client).settings(|set| {
        let (namespace, identity) = (&settings.namespace, &settings.identity);
        let lease = LeaseConfig::new(namespace, NAME, identity).at(settings.admin.as_deref());
        set.lease = Some(lease).filter(|_| settings.leader_elect);
        set.board = parts.admin_registry;
        set.server = parts.api_limits;
        set.budgets = shelf;
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

/// Runs an object whose turn has come.
fn trigger_fn(provisioners: &Trigger, proxies: &Trigger) -> Tell {
    let (provisioners, proxies) = (provisioners.clone(), proxies.clone());
    Arc::new(move |who| match who.kind {
        "CoderProvisioner" => provisioners.poke(&who.key),
        _ => proxies.poke(&who.key),
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
