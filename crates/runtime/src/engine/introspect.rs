//! The state that an engine publishes on its admin address. Read-only.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::controller::Kind;
use super::run::Reconciler;
use crate::admin::{
    self, DebugState, EngineInspector, KindCounters, Readiness, TaskState, WatchHealth,
};
use crate::budget::{LimiterRegistry, RateLimiter};
use crate::hub::InformerSet;
use crate::journal::Journal;
use crate::lease::LeaderElector;
use crate::queue::Lane;
use crate::tasks::Tasks;
use crate::telemetry::{EventResult, QueueLevels, Telemetry, WriteResult};
use crate::writer;

/// A controller whose state can be inspected.
pub(crate) trait InspectController: Send + Sync {
    /// Its current state, for people.
    fn inspect(&self, open: bool) -> admin::ControllerState;

    /// Updates metrics that grow without any event.
    fn measure(&self);
}

/// The parts of an engine that can be inspected.
pub(crate) struct EngineProcess {
    pub(crate) started: Instant,
    pub(crate) hub: InformerSet,
    pub(crate) own: RateLimiter,
    pub(crate) others: LimiterRegistry,
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
        let dead = self.tasks.dead().into_iter();
        let others = self.others.all();
        let others = others.iter().map(|budget| budget.snapshot());
        DebugState {
            uptime: self.started.elapsed().as_secs_f64(),
            controllers: self
                .controllers
                .iter()
                .map(|one| one.inspect(open))
                .collect(),
            watches: self
                .hub
                .watches()
                .iter()
                .map(|one| WatchHealth::of(one, one.required))
                .collect(),
            budgets: std::iter::once(self.own.snapshot()).chain(others).collect(),
            leases: self.lease.iter().map(LeaderElector::status).collect(),
            tasks: dead
                .map(|line| TaskState {
                    name: line.clone(),
                    dead: Some(line),
                })
                .collect(),
            kinds: self.kinds(),
            unready: self.readiness.trouble(),
        }
    }

    fn journal(&self) -> Option<&Journal> {
        Some(&self.journal)
    }

    fn measure(&self) {
        self.controllers.iter().for_each(|one| one.measure());
    }
}

impl EngineProcess {
    fn kinds(&self) -> Vec<KindCounters> {
        let mut kinds: Vec<String> = self
            .hub
            .watches()
            .iter()
            .map(|watch| watch.kind.to_string())
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
            .into_iter()
            .map(|kind| tally(&self.telemetry, kind))
            .collect()
    }
}

fn tally(telemetry: &Telemetry, kind: String) -> KindCounters {
    let events = |result| telemetry.watch.events(&kind, result);
    let writes = |result| {
        let verbs = writer::VERBS.into_iter();
        verbs
            .map(|verb| telemetry.writes.writes(&kind, verb, result))
            .sum()
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
        let desk = &self.desk;
        let lane = |lane: Lane| {
            desk.queue(|queue, now| admin::QueueLaneState {
                name: lane.word().into(),
                depth: queue.depth(lane),
                oldest: queue.oldest(lane, now).map(|age| age.as_secs_f64()),
            })
        };
        admin::ControllerState {
            name: self.name.to_owned(),
            open: open || self.everywhere,
            concurrency: desk.options.workers,
            lanes: Lane::ALL.map(lane).to_vec(),
            waiting: desk.queue(|queue, _| queue.waiting()),
            running: desk.running(),
            quarantined: desk.quarantined(),
            triggers: desk.triggers(),
        }
    }

    fn measure(&self) {
        self.desk.queue(|queue, now| {
            self.telemetry
                .emit(QueueLevels::of(&self.label, queue, now))
        });
    }
}
