//! One struct per occurrence, which writes the log line and moves the metric together.
//!
//! Every metric name stands in a file of this module. Nothing else may touch a metric.

mod budget;
mod events;
mod lease;
mod queue;
mod runs;
mod watch;
mod writes;

use std::fmt;
use std::sync::Arc;

use prometheus_client::registry::Registry;

pub use self::budget::BudgetFamilies;
pub(crate) use self::budget::{
    BudgetClosed, BudgetRefused, BudgetWaited, DeadlineExceeded, NonsenseHint, ReadersThrottled,
    RequestDone,
};
pub use self::events::EventFamilies;
pub(crate) use self::events::{EventWritten, EventsDropped};
pub use self::lease::LeaseFamilies;
pub(crate) use self::lease::{
    Contending, LeaseCallFailed, LeaseGained, LeaseLost, LeaseReleased, SlowPath,
};
pub use self::queue::QueueFamilies;
pub(crate) use self::queue::{Dequeued, Enqueued, HandedBack, QueueLevels};
pub(crate) use self::runs::{
    DeadlinePassed, FirstWrite, Panicked, QuarantineEnded, Quarantined, RunEnded, RunOutcome,
    RunStarted,
};
pub use self::runs::{RunFamilies, WorkersSet};
pub use self::watch::{EventResult, WatchFamilies};
pub(crate) use self::watch::{
    EventSeen, ListenerPanicked, ObjectUnreadable, Reading, WatchBegan, WatchListed, WatchLost,
};
pub(crate) use self::writes::{ConflictLost, EffectStale, WriteEnded};
pub use self::writes::{WriteFamilies, WriteResult};

/// Every metric of the runtime. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Telemetry(Arc<Families>);

/// The metrics by area.
#[derive(Debug, Default)]
pub struct Families {
    /// Budgets and the calls that spend from them.
    pub budget: BudgetFamilies,
    /// Events of the API.
    pub events: EventFamilies,
    /// Leader election.
    pub lease: LeaseFamilies,
    /// The queue.
    pub queue: QueueFamilies,
    /// Reconciles.
    pub runs: RunFamilies,
    /// Watches and caches.
    pub watch: WatchFamilies,
    /// Writes and conflicts.
    pub writes: WriteFamilies,
}

impl std::ops::Deref for Telemetry {
    type Target = Families;

    fn deref(&self) -> &Families {
        &self.0
    }
}

impl Telemetry {
    /// Whether this is the same as another, not only alike.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Counts and logs what occurred.
    pub fn emit(&self, occurrence: impl Occurrence) {
        occurrence.emit(self);
    }

    /// Registers every metric under its public name.
    pub fn register(&self, registry: &mut Registry) {
        self.budget.register(registry);
        self.events.register(registry);
        self.lease.register(registry);
        self.queue.register(registry);
        self.runs.register(registry);
        self.watch.register(registry);
        self.writes.register(registry);
    }

    /// Every metric as OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut registry = Registry::default();
        self.register(&mut registry);
        encoded(&registry)
    }
}

/// The metrics of a registry as OpenMetrics text.
pub(crate) fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)
        .expect("writing to a string does not fail");
    text
}

/// Metrics of a program, to be served beside those of the runtime.
#[derive(Clone)]
pub struct Metrics(Arc<dyn Fn(&mut Registry) + Send + Sync>);

impl Metrics {
    /// Metrics that `register` puts into a registry.
    #[must_use]
    pub fn new(register: impl Fn(&mut Registry) + Send + Sync + 'static) -> Self {
        Self(Arc::new(register))
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        (self.0)(registry);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Something worth a metric, a log line or both.
pub trait Occurrence {
    /// Moves the metrics and writes the log line.
    fn emit(self, families: &Families);
}
