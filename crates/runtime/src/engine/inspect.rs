//! The state that an engine publishes on its admin address. Read-only.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::admin::{DebugState, EngineInspector, KindCounters, Readiness, TaskState, WatchHealth};
use crate::controller::Kind;
use crate::controller::reconcile::Reconciler;
use crate::informer::InformerSet;
use crate::journal::Journal;
use crate::leadership::LeaderElector;
use crate::queue::Lane;
use crate::ratelimit::{LimiterRegistry, RateLimiter};
use crate::tasks::Tasks;
use crate::telemetry::{EventResult, QueueLevels, Telemetry, WriteResult};
use crate::{admin, writer};

/// A controller whose state can be inspected.
pub(crate) trait InspectController: Send + Sync {
    /// Its current state, for people.
    fn inspect(&self, open: bool) -> admin::ControllerState;

    /// Updates metrics that grow without any event.
    fn update_metrics(&self);
}

/// The parts of an engine that can be inspected.
pub(crate) struct EngineProcess {
    pub(crate) started: Instant,
    pub(crate) informers: InformerSet,
    pub(crate) api_limiter: RateLimiter,
    pub(crate) other_limiters: LimiterRegistry,
    pub(crate) lease: Option<LeaderElector>,
    pub(crate) journal: Journal,
    pub(crate) tasks: Tasks,
    pub(crate) controllers: Vec<Arc<dyn InspectController>>,
    pub(crate) leading: watch::Receiver<bool>,
    pub(crate) readiness: Readiness,
    pub(crate) telemetry: Telemetry,
}

impl EngineInspector for EngineProcess {
    fn state(&self) -> DebugState {
        let open = *self.leading.borrow();
        let dead = self.tasks.failed_tasks().into_iter();
        let others = self.other_limiters.all();
        let others = others.iter().map(|budget| budget.snapshot());
        DebugState {
            uptime: self.started.elapsed().as_secs_f64(),
            controllers: self.controllers.iter().map(|one| one.inspect(open)).collect(),
            watches: self
                .informers
                .states()
                .iter()
                .map(|one| WatchHealth::from_informer(one, one.required))
                .collect(),
            budgets: std::iter::once(self.api_limiter.snapshot()).chain(others).collect(),
            leases: self.lease.iter().map(LeaderElector::status).collect(),
            tasks: dead
                .map(|line| TaskState {
                    name: line.clone(),
                    dead: Some(line),
                })
                .collect(),
            kinds: self.kinds(),
            unready: self.readiness.failure(),
        }
    }

    fn journal(&self) -> Option<&Journal> {
        Some(&self.journal)
    }

    fn update_metrics(&self) {
        self.controllers.iter().for_each(|one| one.update_metrics());
    }
}

impl EngineProcess {
    fn kinds(&self) -> Vec<KindCounters> {
        let mut kinds: Vec<String> = self
            .informers
            .states()
            .iter()
            .map(|watch| watch.kind.to_string())
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
            .into_iter()
            .map(|kind| kind_counters(&self.telemetry, kind))
            .collect()
    }
}

fn kind_counters(telemetry: &Telemetry, kind: String) -> KindCounters {
    let events = |result| telemetry.watch.events(&kind, result);
    let writes = |result| {
        let verbs = writer::VERBS.into_iter();
        verbs.map(|verb| telemetry.writes.writes(&kind, verb, result)).sum()
    };
    KindCounters {
        events_passed: events(EventResult::Passed) + events(EventResult::Unreadable),
        events_dropped: events(EventResult::Noise) + events(EventResult::Own),
        writes: writes(WriteResult::Written),
        writes_suppressed: writes(WriteResult::Suppressed),
        conflicts: writes(WriteResult::Conflict),
        kind,
    }
}

impl<K: Kind> InspectController for Reconciler<K> {
    fn inspect(&self, open: bool) -> admin::ControllerState {
        let desk = &self.queue;
        let lane = |lane: Lane| {
            desk.with_queue(|queue, now| admin::QueueLaneState {
                name: lane.as_str().into(),
                depth: queue.depth(lane),
                oldest: queue.oldest(lane, now).map(|age| age.as_secs_f64()),
            })
        };
        admin::ControllerState {
            name: self.name.to_owned(),
            open: open || self.without_leader_election,
            concurrency: desk.options.workers,
            lanes: Lane::ALL.map(lane).to_vec(),
            waiting: desk.with_queue(|queue, _| queue.waiting()),
            running: desk.running(),
            quarantined: desk.quarantined(),
            triggers: desk.triggers(),
        }
    }

    fn update_metrics(&self) {
        self.queue
            .with_queue(|queue, now| self.telemetry.emit(QueueLevels::from_queue(&self.label, queue, now)));
    }
}
