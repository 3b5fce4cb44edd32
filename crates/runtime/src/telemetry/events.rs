//! Kubernetes Events: how many were written, and how many were dropped and why.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tracing::debug;

use super::{MetricFamilies, TelemetryEvent};

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
