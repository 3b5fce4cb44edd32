//! What the engine says of itself on its admin address. Looks, never touches.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::controller::Kind;
use super::run::Crew;
use crate::admin::{self, Introspect, KindTally, Readiness, State, Task, Watch};
use crate::budget::{Budget, Shelf};
use crate::hub::Hub;
use crate::journal::Journal;
use crate::lease::Lease;
use crate::queue::Lane;
use crate::tasks::Tasks;
use crate::telemetry::{EventResult, QueueLevels, Telemetry, WriteResult};
use crate::writer;

/// A controller that can say what it is doing.
pub(crate) trait Inspect: Send + Sync {
    /// What it is doing, for people.
    fn inspect(&self, open: bool) -> admin::Controller;

    /// Moves the metrics that grow while nothing occurs.
    fn measure(&self);
}

/// Everything of a process that can be looked at.
pub(crate) struct Process {
    pub(crate) started: Instant,
    pub(crate) hub: Hub,
    pub(crate) own: Budget,
    pub(crate) others: Shelf,
    pub(crate) lease: Option<Lease>,
    pub(crate) journal: Journal,
    pub(crate) tasks: Tasks,
    pub(crate) controllers: Vec<Arc<dyn Inspect>>,
    pub(crate) leading: watch::Receiver<bool>,
    pub(crate) readiness: Readiness,
    pub(crate) telemetry: Telemetry,
}

impl Introspect for Process {
    fn state(&self) -> State {
        let open = *self.leading.borrow();
        let dead = self.tasks.dead().into_iter();
        let others = self.others.all();
        let others = others.iter().map(|budget| budget.snapshot());
        State {
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
                .map(|one| Watch::of(one, one.required))
                .collect(),
            budgets: std::iter::once(self.own.snapshot()).chain(others).collect(),
            leases: self.lease.iter().map(Lease::status).collect(),
            tasks: dead
                .map(|line| Task {
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

impl Process {
    fn kinds(&self) -> Vec<KindTally> {
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

fn tally(telemetry: &Telemetry, kind: String) -> KindTally {
    let events = |result| telemetry.watch.events(&kind, result);
    let writes = |result| {
        let verbs = writer::VERBS.into_iter();
        verbs
            .map(|verb| telemetry.writes.writes(&kind, verb, result))
            .sum()
    };
    KindTally {
        events_passed: events(EventResult::Passed) + events(EventResult::Unreadable),
        events_dropped: events(EventResult::Noise) + events(EventResult::Own),
        writes: writes(WriteResult::Written),
        writes_suppressed: writes(WriteResult::Suppressed),
        conflicts: writes(WriteResult::Conflict),
        kind,
    }
}

impl<K: Kind> Inspect for Crew<K> {
    fn inspect(&self, open: bool) -> admin::Controller {
        let desk = &self.desk;
        let lane = |lane: Lane| {
            desk.queue(|queue, now| admin::Lane {
                name: lane.word().into(),
                depth: queue.depth(lane),
                oldest: queue.oldest(lane, now).map(|age| age.as_secs_f64()),
            })
        };
        admin::Controller {
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
