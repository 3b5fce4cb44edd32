//! The shared parts of an engine, and how a controller is built from them.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caches::ControllerCaches;
use super::controller::{Controller, Kind};
use super::desk::{QueueLog, WorkQueue};
use super::introspect::EngineProcess;
use super::options::ControllerOptions;
use super::pump::pump;
use super::run::Reconciler;
use super::wiring::{EventHandlers, kind};
use super::{EngineSettings, InstalledController, WorkerParams};
use crate::admin::{self, EngineEntry, EngineRegistration};
use crate::budget::{self, RateLimiter};
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::events::{EventPublisher, EventRecorder, EventReporter};
use crate::fence::Fence;
use crate::gate::{self, ClientLimits};
use crate::hub::InformerSet;
use crate::journal::{Journal, JournalCapacity};
use crate::lease::LeaderElector;
use crate::tasks::{TaskHandle, Tasks};
use crate::telemetry::{Telemetry, WorkersSet};
use crate::watch::Scope;
use crate::writer::Writer;

/// The shared parts of an engine.
pub(crate) struct EngineParts {
    name: String,
    settings: EngineSettings,
    client: kube::Client,
    budget: RateLimiter,
    telemetry: Telemetry,
    journal: Journal,
    hub: InformerSet,
    recorder: EventRecorder,
    publisher: Option<EventPublisher>,
    publishing: Option<TaskHandle<()>>,
    showing: Option<EngineRegistration>,
    fence: Fence,
    lease: Option<LeaderElector>,
    leading: watch::Receiver<bool>,
    tasks: Tasks,
    /// Canceled last: leases, Events and the admin address outlive the work.
    over: CancellationToken,
}

impl EngineParts {
    pub(crate) fn new(name: &str, client: kube::Client, settings: EngineSettings) -> Result<Self> {
        let (telemetry, clock) = (settings.telemetry.clone(), settings.clock.clone());
        let server = settings.server.clone();
        let server = server
            .unwrap_or_else(|| budget::ApiServerLimits::new(&settings.budget, &telemetry, &clock));
        let gated = |budget: RateLimiter, client: kube::Client| {
            let mut gate = ClientLimits::new(budget, telemetry.clone());
            gate.request_deadline = settings.request_deadline;
            gate::wrap(client, gate)
        };
        let renewals = gated(server.leases, client.clone());
        let budget = server.work;
        let client = gated(budget.clone(), client);
        let reporter = EventReporter {
            controller: name.to_owned(),
            instance: settings.instance(name),
        };
        let (recorder, publisher) =
            EventRecorder::new(client.clone(), reporter, telemetry.clone(), clock.clone());
        let (fence, lease, leading) = right_to_act(&settings, &renewals, &telemetry)?;
        Ok(Self {
            tasks: settings.tasks.clone().unwrap_or_else(Tasks::on_runtime),
            name: name.to_owned(),
            journal: Journal::new(JournalCapacity::default(), clock),
            hub: InformerSet::new(client.clone(), telemetry.clone()),
            publisher: Some(publisher),
            publishing: None,
            showing: None,
            over: CancellationToken::new(),
            settings,
            client,
            budget,
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
        let desk = self.desk::<K>(controller.name, controller.options);
        let primary = self.primary::<K>(&controller.scope);
        let mut wiring = EventHandlers {
            hub: &self.hub,
            desk: desk.clone(),
            primary: primary.clone(),
            caches: ControllerCaches::default(),
            scope: controller.scope,
            manager: controller.name,
            telemetry: self.telemetry.clone(),
        };
        let fence = self.fence_of(controller.everywhere);
        let writer = self.writer(controller.name, &fence);
        let (past, farewell) = (writer.clone(), controller.farewell);
        wiring.primary(
            controller.lens,
            Arc::new(move |key| {
                past.forget_children(key);
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
            desk,
            primary,
            caches,
            writer,
            client: self.client.clone(),
            fence,
            lease: self.lease.clone(),
            everywhere: controller.everywhere,
            silent: controller.silent || controller.everywhere,
            finalizers: controller.finalizers,
            recorder: self.recorder.clone(),
            journal: self.journal.clone(),
            telemetry: self.telemetry.clone(),
        });
        InstalledController {
            name: controller.name,
            everywhere: controller.everywhere,
            cache: Arc::new(crew.primary.clone()),
            inspect: crew.clone(),
            pump: Box::new(move |terms| Box::pin(pump(crew, terms))),
        }
    }

    fn writer(&self, manager: &str, fence: &Fence) -> Writer {
        let (client, fence) = (self.client.clone(), fence.clone());
        let (telemetry, clock) = (self.telemetry.clone(), self.settings.clock.clone());
        Writer::new(client, manager, fence, telemetry, clock)
    }

    /// The work queue of a controller.
    fn desk<K: Kind>(
        &self,
        controller: &'static str,
        options: ControllerOptions,
    ) -> Arc<WorkQueue> {
        let books = QueueLog {
            kind: kind::<K>().into(),
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
    fn primary<K: Kind>(&self, scope: &Scope) -> Cache<K> {
        let watch = self.hub.watch::<K>(scope.clone());
        let board = self.settings.board.clone();
        watch.listen(move |_| board.touch());
        watch.cache()
    }

    /// Controllers that run on every replica need no lease.
    fn fence_of(&self, everywhere: bool) -> Fence {
        if everywhere {
            return Fence::open();
        }
        self.fence.clone()
    }

    /// Starts everything but the work. The returned handles must be kept until the end.
    pub(crate) async fn start(
        &mut self,
        installed: &[InstalledController],
    ) -> Result<Vec<TaskHandle<()>>> {
        let mut standing = self.hub.start(&self.tasks);
        if let Some(publisher) = self.publisher.take() {
            let run = publisher.run(self.over.clone());
            self.publishing = Some(self.tasks.vital("events", run));
        }
        self.show(installed);
        if let Some(address) = self.settings.admin {
            standing.push(self.serve(address).await?);
        }
        Ok(standing)
    }

    /// Begins to contend for the lease, only after the caches are complete: a leader that cannot
    /// act yet would keep the lease from one that can.
    pub(crate) fn contend(&self) -> Option<TaskHandle<()>> {
        let lease = self.lease.as_ref()?;
        Some(self.tasks.vital("lease", lease.run(self.over.clone())))
    }

    /// Adds this engine to the registry for as long as it runs.
    fn show(&mut self, installed: &[InstalledController]) {
        let process = EngineProcess {
            started: Instant::now(),
            hub: self.hub.clone(),
            own: self.budget.clone(),
            others: self.settings.budgets.clone(),
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
        self.showing = Some(self.settings.board.show(shown));
    }

    async fn serve(&self, address: std::net::SocketAddr) -> Result<TaskHandle<()>> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Error::fault(format!(
                "cannot listen on the admin address {address}: {error}"
            ))
        })?;
        let (router, over) = (self.settings.board.router(), self.over.clone());
        Ok(self.tasks.start(async move {
            if let Err(error) = admin::serve(listener, router, over).await {
                tracing::error!(%error, "Admin server stopped");
            }
        }))
    }

    /// Waits until every watch is complete.
    pub(crate) async fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + self.settings.sync_deadline;
        self.hub.ready(deadline).await
    }

    /// Starts the work of one controller.
    pub(crate) fn pump(
        &self,
        controller: InstalledController,
        stop: &CancellationToken,
    ) -> TaskHandle<()> {
        let leading = match controller.everywhere {
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
        self.tasks.vital(controller.name, (controller.pump)(terms))
    }

    /// Releases the lease, once nothing of this process acts any more, and writes the last Events.
    pub(crate) async fn finish(self, standing: Vec<TaskHandle<()>>) {
        if let Some(lease) = &self.lease {
            lease.release().await;
        }
        self.over.cancel();
        if let Some(publishing) = self.publishing {
            publishing.join().await;
        }
        drop(standing);
    }
}

type Right = (Fence, Option<LeaderElector>, watch::Receiver<bool>);

fn right_to_act(
    settings: &EngineSettings,
    client: &kube::Client,
    telemetry: &Telemetry,
) -> Result<Right> {
    let Some(config) = settings.lease.clone() else {
        // The receiver keeps its value after the sender is dropped.
        return Ok((Fence::open(), None, watch::Sender::new(true).subscribe()));
    };
    let fence = Fence::shut();
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
