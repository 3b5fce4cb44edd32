//! One struct per occurrence, which writes the log line and updates the metric together.
//!
//! Every metric name is defined in this module. Other modules must not access metrics directly.

mod budget;
mod lease;
mod queue;
mod runs;
mod watch;
mod writes;

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tracing::debug;

pub use self::budget::LimiterMetrics;
pub(crate) use self::budget::{
    CollectionThrottled, DeadlineExceeded, InvalidLimitHeader, LimiterClosed, LimiterRefused, LimiterWaited,
    RequestDone,
};
pub use self::lease::LeaseMetrics;
pub(crate) use self::lease::{LeaseCallFailed, LeaseContended, LeaseGained, LeaseLost, LeaseReleased, LeaseSlowPath};
pub use self::queue::QueueMetrics;
pub(crate) use self::queue::{Dequeued, Enqueued, KeyDone, QueueLevels};
pub(crate) use self::runs::{
    DeadlinePassed, FirstWrite, KeyQuarantined, Panicked, QuarantineEnded, RunEnded, RunOutcome, RunStarted,
};
pub use self::runs::{ReconcileMetrics, WorkersSet};
pub use self::watch::{EventResult, WatchMetrics};
pub(crate) use self::watch::{
    EventSeen, ListenerPanicked, ObjectUnreadable, WatchBegan, WatchGauges, WatchListed, WatchLost,
};
pub(crate) use self::writes::{ConflictLost, StaleEffect, WriteEnded};
pub use self::writes::{WriteMetrics, WriteResult};

/// Every metric of the runtime. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Telemetry(Arc<MetricFamilies>);

/// The metrics by area.
#[derive(Debug, Default)]
pub struct MetricFamilies {
    /// Rate limiters and the calls that spend from them.
    pub budget: LimiterMetrics,
    /// Kubernetes Events.
    pub events: EventMetrics,
    /// Leader election.
    pub lease: LeaseMetrics,
    /// The queue.
    pub queue: QueueMetrics,
    /// Reconciles.
    pub runs: ReconcileMetrics,
    /// Watches and caches.
    pub watch: WatchMetrics,
    /// Writes and conflicts.
    pub writes: WriteMetrics,
}

impl std::ops::Deref for Telemetry {
    type Target = MetricFamilies;

    fn deref(&self) -> &MetricFamilies {
        &self.0
    }
}

impl Telemetry {
    /// Whether both are clones of one another.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Counts and logs an occurrence.
    pub fn emit(&self, occurrence: impl TelemetryEvent) {
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
    prometheus_client::encoding::text::encode(&mut text, registry).expect("writing to a string does not fail");
    text
}

/// Metrics of a program, served together with those of the runtime.
#[derive(Clone)]
pub struct MetricsSource(Arc<dyn Fn(&mut Registry) + Send + Sync>);

impl MetricsSource {
    /// Metrics that `register` adds to a registry.
    #[must_use]
    pub fn new(register: impl Fn(&mut Registry) + Send + Sync + 'static) -> Self {
        Self(Arc::new(register))
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        (self.0)(registry);
    }
}

impl fmt::Debug for MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// An occurrence with a metric, a log line or both.
pub trait TelemetryEvent {
    /// Updates the metrics and writes the log line.
    fn emit(self, families: &MetricFamilies);
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventVerbLabels {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventDropLabels {
    reason: &'static str,
}

/// Metrics of Events.
#[derive(Debug, Default)]
pub struct EventMetrics {
    written: Family<EventVerbLabels, Counter>,
    dropped: Family<EventDropLabels, Counter>,
}

impl EventMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "aplomb_events_written",
            "Events created and Event series updated",
            self.written.clone(),
        );
        registry.register(
            "aplomb_events_dropped",
            "Events that were not written, by reason",
            self.dropped.clone(),
        );
    }
}

/// An Event was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventWritten {
    /// `create` or `update`.
    pub(crate) verb: &'static str,
}

impl TelemetryEvent for EventWritten {
    fn emit(self, families: &MetricFamilies) {
        let verb = EventVerbLabels { verb: self.verb };
        families.events.written.get_or_create(&verb).inc();
    }
}

/// Events were not written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventsDropped<'a> {
    /// `full`, `spam`, `refused`, `unavailable` or `shutdown`.
    pub(crate) reason: &'static str,
    /// Their number.
    pub(crate) count: u64,
    /// The server's message, if there was a call.
    pub(crate) err: &'a str,
}

impl TelemetryEvent for EventsDropped<'_> {
    fn emit(self, families: &MetricFamilies) {
        let reason = self.reason;
        let dropped = &families.events.dropped;
        dropped.get_or_create(&EventDropLabels { reason }).inc_by(self.count);
        debug!(reason, count = self.count, err = self.err, "Dropped events");
    }
}
