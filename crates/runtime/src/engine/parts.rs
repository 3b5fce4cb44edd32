//! The shared parts of an engine, and how a controller is built from them.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin::{EngineEntry, EngineRegistration};
use crate::cache::Cache;
use crate::client::ClientLimits;
use crate::controller::handlers::{EventHandlers, kind_name};
use crate::controller::reconcile::{Reconciler, run_workers};
use crate::controller::workqueue::{QueueLog, WorkQueue};
use crate::controller::{Controller, ControllerCaches, ControllerOptions, Kind};
use crate::engine::inspect::EngineProcess;
use crate::engine::{EngineSettings, InstalledController, WorkerParams};
use crate::error::{Error, Result};
use crate::events::{EventPublisher, EventRecorder, EventReporter};
use crate::informer::{InformerSet, Scope};
use crate::journal::{Journal, JournalCapacity};
use crate::leadership::LeaderElector;
use crate::leadership::fence::Fence;
use crate::ratelimit::RateLimiter;
use crate::tasks::{TaskHandle, Tasks};
use crate::telemetry::{Telemetry, WorkersSet};
use crate::writer::Writer;
use crate::{admin, client, ratelimit};

/// The shared parts of an engine.
pub(crate) struct EngineParts {
    name: String,
    settings: EngineSettings,
    client: kube::Client,
    limiter: RateLimiter,
    telemetry: Telemetry,
    journal: Journal,
    informers: InformerSet,
    recorder: EventRecorder,
    publisher: Option<EventPublisher>,
    publisher_task: Option<TaskHandle<()>>,
    registration: Option<EngineRegistration>,
    fence: Fence,
    lease: Option<LeaderElector>,
    leading: watch::Receiver<bool>,
    tasks: Tasks,
    /// Canceled last: leases, Events and the admin address outlive the work.
    final_stop: CancellationToken,
}

impl EngineParts {
    pub(crate) fn new(name: &str, client: kube::Client, settings: EngineSettings) -> Result<Self> {
        let (telemetry, clock) = (settings.telemetry.clone(), settings.clock.clone());
        let server = settings.api_limits.clone();
        let server =
            server.unwrap_or_else(|| ratelimit::ApiServerLimits::new(&settings.api_limit_config, &telemetry, &clock));
        let gated = |limiter: RateLimiter, client: kube::Client| {
            let mut limits = ClientLimits::new(limiter, telemetry.clone());
            limits.request_deadline = settings.request_deadline;
            client::limit_client(client, limits)
        };
        let renewals = gated(server.leases, client.clone());
        let limiter = server.work;
        let client = gated(limiter.clone(), client);
        let reporter = EventReporter {
            controller: name.to_owned(),
            instance: settings.instance(name),
        };
        let (recorder, publisher) = EventRecorder::new(client.clone(), reporter, telemetry.clone(), clock.clone());
        let (fence, lease, leading) = leadership(&settings, &renewals, &telemetry)?;
        Ok(Self {
            tasks: settings.tasks.clone().unwrap_or_else(Tasks::on_runtime),
            name: name.to_owned(),
            journal: Journal::new(JournalCapacity::default(), clock),
            informers: InformerSet::new(client.clone(), telemetry.clone()),
            publisher: Some(publisher),
            publisher_task: None,
            registration: None,
            final_stop: CancellationToken::new(),
            settings,
            client,
            limiter,
            telemetry,
            recorder,
            fence,
            lease,
            leading,
        })
    }

    /// Connects a controller to its watches. It is not started yet.
    pub(crate) fn install<K: Kind>(&self, controller: Controller<K>) -> InstalledController {
        let label: Arc<str> = controller.name.into();
        let desk = self.work_queue::<K>(controller.name, controller.options);
        let primary = self.primary_cache::<K>(&controller.scope);
        let mut wiring = EventHandlers {
            informers: &self.informers,
            queue: desk.clone(),
            primary: primary.clone(),
            caches: ControllerCaches::default(),
            scope: controller.scope,
            manager: controller.name,
            telemetry: self.telemetry.clone(),
        };
        let fence = self.fence_for(controller.without_leader_election);
        let writer = self.writer(controller.name, &fence);
        let (past, farewell) = (writer.clone(), controller.on_deleted);
        wiring.watch_primary(
            controller.predicate,
            Arc::new(move |key| {
                past.on_owner_deleted(key);
                farewell(key);
            }),
        );
        for input in controller.inputs {
            input(&mut wiring);
        }
        let caches = wiring.caches;
        let crew = Arc::new(Reconciler {
            name: controller.name,
            label,
            reconcile: controller.reconcile,
            queue: desk,
            primary,
            caches,
            writer,
            client: self.client.clone(),
            fence,
            lease: self.lease.clone(),
            without_leader_election: controller.without_leader_election,
            without_status: controller.without_status || controller.without_leader_election,
            finalizers: controller.finalizers,
            recorder: self.recorder.clone(),
            journal: self.journal.clone(),
            telemetry: self.telemetry.clone(),
        });
        InstalledController {
            name: controller.name,
            without_leader_election: controller.without_leader_election,
            cache: Arc::new(crew.primary.clone()),
            inspect: crew.clone(),
            run_workers: Box::new(move |terms| Box::pin(run_workers(crew, terms))),
        }
    }

    fn writer(&self, manager: &str, fence: &Fence) -> Writer {
        let (client, fence) = (self.client.clone(), fence.clone());
        let (telemetry, clock) = (self.telemetry.clone(), self.settings.clock.clone());
        Writer::new(client, manager, fence, telemetry, clock)
    }

    /// The work queue of a controller.
    fn work_queue<K: Kind>(&self, controller: &'static str, options: ControllerOptions) -> Arc<WorkQueue> {
        let books = QueueLog {
            kind: kind_name::<K>().into(),
            controller: controller.into(),
            journal: self.journal.clone(),
            clock: self.settings.clock.clone(),
            telemetry: self.telemetry.clone(),
        };
        let desk = Arc::new(WorkQueue::new(options, books));
        self.telemetry.emit(WorkersSet {
            controller,
            concurrency: desk.options.workers,
        });
        desk
    }

    /// The cache of a controller's own kind. Followers of the registry are woken by every change of it.
    fn primary_cache<K: Kind>(&self, scope: &Scope) -> Cache<K> {
        let watch = self.informers.informer::<K>(scope.clone());
        let board = self.settings.admin_registry.clone();
        watch.listen(move |_| board.notify_changed());
        watch.cache()
    }

    /// Controllers that run on every replica need no lease.
    fn fence_for(&self, everywhere: bool) -> Fence {
        if everywhere {
            return Fence::always_open();
        }
        self.fence.clone()
    }

    /// Starts everything but the work. The returned handles must be kept until the end.
    pub(crate) async fn start(&mut self, installed: &[InstalledController]) -> Result<Vec<TaskHandle<()>>> {
        let mut standing = self.informers.start(&self.tasks);
        if let Some(publisher) = self.publisher.take() {
            let run = publisher.run(self.final_stop.clone());
            self.publisher_task = Some(self.tasks.spawn_critical("events", run));
        }
        self.register_admin(installed);
        if let Some(address) = self.settings.admin {
            standing.push(self.serve_admin(address).await?);
        }
        Ok(standing)
    }

    /// Begins to contend for the lease, only after the caches are complete: a leader that cannot
    /// act yet would keep the lease from one that can.
    pub(crate) fn start_election(&self) -> Option<TaskHandle<()>> {
        let lease = self.lease.as_ref()?;
        Some(self.tasks.spawn_critical("lease", lease.run(self.final_stop.clone())))
    }

    /// Adds this engine to the registry for as long as it runs.
    fn register_admin(&mut self, installed: &[InstalledController]) {
        let process = EngineProcess {
            started: Instant::now(),
            informers: self.informers.clone(),
            api_limiter: self.limiter.clone(),
            other_limiters: self.settings.limiters.clone(),
            lease: self.lease.clone(),
            journal: self.journal.clone(),
            tasks: self.tasks.clone(),
            controllers: installed.iter().map(|one| one.inspect.clone()).collect(),
            leading: self.leading.clone(),
            readiness: self.settings.readiness.clone(),
            telemetry: self.telemetry.clone(),
        };
        let shown = EngineEntry {
            metrics: self.settings.metrics.clone(),
            caches: installed.iter().map(|one| one.cache.clone()).collect(),
            ..EngineEntry::new(&self.name, Arc::new(process), self.telemetry.clone())
        };
        self.registration = Some(self.settings.admin_registry.register(shown));
    }

    async fn serve_admin(&self, address: std::net::SocketAddr) -> Result<TaskHandle<()>> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| Error::fault(format!("cannot listen on the admin address {address}: {error}")))?;
        let (router, over) = (self.settings.admin_registry.router(), self.final_stop.clone());
        Ok(self.tasks.spawn(async move {
            if let Err(error) = admin::serve(listener, router, over).await {
                tracing::error!(%error, "Admin server stopped");
            }
        }))
    }

    /// Waits until every watch is complete.
    pub(crate) async fn wait_until_synced(&self) -> Result<()> {
        let deadline = Instant::now() + self.settings.sync_deadline;
        self.informers.wait_until_synced(deadline).await
    }

    /// Starts the work of one controller.
    pub(crate) fn start_workers(&self, controller: InstalledController, stop: &CancellationToken) -> TaskHandle<()> {
        let leading = match controller.without_leader_election {
            // The receiver keeps its value after the sender is dropped.
            true => watch::Sender::new(true).subscribe(),
            false => self.leading.clone(),
        };
        let terms = WorkerParams {
            leading,
            stop: stop.clone(),
            drain: self.settings.drain,
            tasks: self.tasks.clone(),
        };
        tracing::info!(controller = controller.name, "Started controller");
        self.tasks
            .spawn_critical(controller.name, (controller.run_workers)(terms))
    }

    /// Releases the lease, once nothing of this process acts any more, and writes the last Events.
    pub(crate) async fn shut_down(self, standing: Vec<TaskHandle<()>>) {
        if let Some(lease) = &self.lease {
            lease.release().await;
        }
        self.final_stop.cancel();
        if let Some(publishing) = self.publisher_task {
            publishing.join().await;
        }
        drop(standing);
    }
}

type Leadership = (Fence, Option<LeaderElector>, watch::Receiver<bool>);

fn leadership(settings: &EngineSettings, client: &kube::Client, telemetry: &Telemetry) -> Result<Leadership> {
    let Some(config) = settings.lease.clone() else {
        // The receiver keeps its value after the sender is dropped.
        return Ok((Fence::always_open(), None, watch::Sender::new(true).subscribe()));
    };
    let fence = Fence::closed();
    let lease = LeaderElector::new(
        client.clone(),
        config,
        fence.clone(),
        telemetry.clone(),
        settings.clock.clone(),
    )?;
    let leading = lease.leading();
    Ok((fence, Some(lease), leading))
}
