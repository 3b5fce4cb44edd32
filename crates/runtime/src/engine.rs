//! The engine: starts watches first, then the lease, then the work; stops in reverse order.
//!
//! It owns every task it starts. If a watch is not ready in time, the engine fails with its name and
//! the reason, instead of running controllers on incomplete caches.

pub(crate) mod inspect;
pub(crate) mod parts;

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::inspect::InspectController;
use self::parts::EngineParts;
use crate::admin::{AdminRegistry, Readiness};
use crate::clock::Clock;
use crate::controller::{Controller, Kind};
use crate::error::{Error, Result};
use crate::tasks::{TaskHandle, Tasks};
use crate::telemetry::{MetricsSource, Telemetry};
use crate::{leadership, ratelimit};

/// A controller that is connected to its watches and not started yet.
pub(crate) struct InstalledController {
    pub(crate) name: &'static str,
    pub(crate) without_leader_election: bool,
    /// A `Cache` of the controller's own kind.
    pub(crate) cache: Arc<dyn Any + Send + Sync>,
    pub(crate) inspect: Arc<dyn InspectController>,
    pub(crate) run_workers: Box<dyn FnOnce(WorkerParams) -> BoxFuture<'static, ()> + Send + Sync>,
}

/// The conditions under which a controller works.
pub(crate) struct WorkerParams {
    pub(crate) leading: watch::Receiver<bool>,
    pub(crate) stop: CancellationToken,
    pub(crate) drain: Duration,
    pub(crate) tasks: Tasks,
}

type Install = Box<dyn FnOnce(&EngineParts) -> InstalledController + Send>;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Leader election. Without it, this process acts alone.
    pub lease: Option<leadership::LeaseConfig>,
    /// Where `/metrics`, `/livez`, `/readyz` and `/debug/state.json` are served.
    pub admin: Option<SocketAddr>,
    /// The registry for inspection. Engines of one process share it, and one address serves them all.
    pub admin_registry: AdminRegistry,
    /// The rate limits of the API server, if engines of one process share them.
    pub api_limits: Option<ratelimit::ApiServerLimits>,
    /// The rate limit for the API server.
    pub api_limit_config: ratelimit::LimitConfig,
    /// Rate limits of other APIs, shown with the rest of the state.
    pub limiters: ratelimit::LimiterRegistry,
    /// Whether the program is ready for traffic, for `/readyz`.
    pub readiness: Readiness,
    /// Metrics of the program, served with those of the runtime.
    pub metrics: Vec<MetricsSource>,
    /// How long one request may take.
    pub request_deadline: Duration,
    /// How long the first lists may take before the engine gives up with an error that names the missing one.
    pub sync_deadline: Duration,
    /// How long work in progress may take at shutdown.
    pub drain: Duration,
    /// The metrics. Set it to show them elsewhere too.
    pub telemetry: Telemetry,
    /// Wall time for values that people read.
    pub clock: Clock,
    /// Where tasks run. Default: the current runtime.
    pub tasks: Option<Tasks>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            lease: None,
            admin: None,
            admin_registry: AdminRegistry::default(),
            api_limits: None,
            api_limit_config: ratelimit::LimitConfig::api_server(),
            limiters: ratelimit::LimiterRegistry::default(),
            readiness: Readiness::default(),
            metrics: Vec::new(),
            request_deadline: crate::client::REQUEST_DEADLINE,
            sync_deadline: Duration::from_secs(120),
            drain: Duration::from_secs(10),
            telemetry: Telemetry::default(),
            clock: Clock::system(),
            tasks: None,
        }
    }
}

impl EngineSettings {
    /// The name of this replica.
    fn instance(&self, name: &str) -> String {
        let lease = self.lease.as_ref();
        lease.map_or_else(|| name.to_owned(), |lease| lease.identity.clone())
    }
}

/// Controllers that share watches, a rate limit and a lease.
pub struct Engine {
    name: String,
    client: kube::Client,
    settings: EngineSettings,
    controllers: Vec<Install>,
}

impl Engine {
    /// An engine called `name`, as in its Events; the name of its lease is in [`leadership::LeaseConfig`].
    /// `client` should be made by [`crate::client()`]: a client with kube's own retries hides errors from
    /// the controllers for minutes.
    #[must_use]
    pub fn new(name: &str, client: kube::Client) -> Self {
        Self {
            name: name.to_owned(),
            client,
            settings: EngineSettings::default(),
            controllers: Vec::new(),
        }
    }

    /// Changes settings.
    #[must_use]
    pub fn configure(mut self, set: impl FnOnce(&mut EngineSettings)) -> Self {
        set(&mut self.settings);
        self
    }

    /// Adds a controller.
    #[must_use]
    pub fn controller<K: Kind>(mut self, controller: Controller<K>) -> Self {
        self.controllers.push(Box::new(move |parts| parts.install(controller)));
        self
    }

    /// Runs until the process receives `SIGTERM` or `SIGINT`.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn run_until_signal(self) -> Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::fault)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::fault)?;
        self.run(async move {
            tokio::select! { biased;
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await
    }

    /// Runs until `shutdown`, then waits for work in progress, releases the lease and returns.
    ///
    /// # Errors
    /// A watch was not ready in time, or the admin address is in use.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        let mut parts = EngineParts::new(&self.name, self.client, self.settings)?;
        let installed: Vec<_> = self.controllers.into_iter().map(|install| install(&parts)).collect();
        let mut standing = parts.start(&installed).await?;
        tokio::pin!(shutdown);
        tokio::select! { biased;
            () = &mut shutdown => return Ok(()),
            ready = parts.wait_until_synced() => ready?,
        }
        standing.extend(parts.start_election());
        let stop = CancellationToken::new();
        let pumps: Vec<TaskHandle<()>> = installed
            .into_iter()
            .map(|controller| parts.start_workers(controller, &stop))
            .collect();
        shutdown.await;
        stop.cancel();
        for pump in pumps {
            pump.join().await;
        }
        parts.shut_down(standing).await;
        Ok(())
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
