//! Metrics of watches, caches and lenses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::informer::Scope;
use crate::predicate::PredicateResult;
use crate::telemetry::{MetricFamilies, TelemetryEvent};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    kind: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LossLabels {
    kind: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

/// Metrics of watches, caches and lenses.
#[derive(Debug, Default)]
pub struct WatchMetrics {
    events: Family<EventLabels, Counter>,
    restarts: Family<LossLabels, Counter>,
    gauges: Gauges,
}

impl WatchMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "aplomb_events",
            "Watch events by result of the lens",
            self.events.clone(),
        );
        registry.register(
            "aplomb_watch_restarts",
            "Watch connections lost, by cause",
            self.restarts.clone(),
        );
        registry.register_collector(Box::new(self.gauges.clone()));
    }

    /// How many events of `kind` had this result.
    #[must_use]
    pub fn events(&self, kind: &str, result: EventResult) -> u64 {
        let labels = EventLabels {
            kind: kind.to_owned(),
            result: result.as_str(),
        };
        self.events.get(&labels).map_or(0, |counter| counter.get())
    }
}

/// The result of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventResult {
    /// The lens passed it.
    Passed,
    /// No field that is read changed.
    Noise,
    /// This process wrote the change.
    Own,
    /// The lens passed it, and its object does not fit the view.
    Unreadable,
}

impl EventResult {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Noise => "noise",
            Self::Own => "own",
            Self::Unreadable => "unreadable",
        }
    }
}

impl From<PredicateResult> for EventResult {
    fn from(sight: PredicateResult) -> Self {
        match sight {
            PredicateResult::Pass => Self::Passed,
            PredicateResult::Unchanged => Self::Noise,
            PredicateResult::Own => Self::Own,
        }
    }
}

/// A lens has evaluated an event.
#[derive(Debug)]
pub(crate) struct EventSeen<'a> {
    pub(crate) kind: &'a str,
    pub(crate) result: EventResult,
}

impl TelemetryEvent for EventSeen<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = EventLabels {
            kind: self.kind.to_owned(),
            result: self.result.as_str(),
        };
        families.watch.events.get_or_create(&labels).inc();
    }
}

/// An object does not fit the view.
#[derive(Debug)]
pub(crate) struct ObjectUnreadable<'a> {
    pub(crate) kind: &'a str,
    pub(crate) key: &'a crate::ObjectKey,
    pub(crate) error: &'a str,
}

impl TelemetryEvent for ObjectUnreadable<'_> {
    fn emit(self, _families: &MetricFamilies) {
        let Self { kind, key, error } = self;
        tracing::warn!(%kind, object = %key, %error, "Failed to decode an object");
    }
}

/// A listener panicked on an event: its reaction to the event is lost.
#[derive(Debug)]
pub(crate) struct ListenerPanicked<'a> {
    pub(crate) kind: &'a str,
    pub(crate) key: &'a crate::ObjectKey,
}

impl TelemetryEvent for ListenerPanicked<'_> {
    fn emit(self, _families: &MetricFamilies) {
        let Self { kind, key } = self;
        tracing::error!(%kind, object = %key, "Watch listener panicked");
    }
}

/// A watch has a complete list.
#[derive(Debug)]
pub(crate) struct WatchListed<'a> {
    pub(crate) kind: &'a str,
    pub(crate) scope: &'a Scope,
    pub(crate) objects: usize,
}

impl TelemetryEvent for WatchListed<'_> {
    fn emit(self, _families: &MetricFamilies) {
        let Self { kind, scope, objects } = self;
        tracing::debug!(%kind, %scope, objects, "listed");
    }
}

/// A watch connection was lost, or could not be opened.
#[derive(Debug)]
pub(crate) struct WatchLost<'a> {
    pub(crate) kind: &'a str,
    pub(crate) scope: &'a Scope,
    pub(crate) reason: &'static str,
    pub(crate) why: &'a str,
    /// Whether the last loss had the same cause.
    pub(crate) known: bool,
    pub(crate) delay: Duration,
}

impl TelemetryEvent for WatchLost<'_> {
    fn emit(self, families: &MetricFamilies) {
        let Self {
            kind,
            scope,
            reason,
            why,
            known,
            delay,
        } = self;
        let labels = LossLabels {
            kind: kind.to_owned(),
            reason,
        };
        families.watch.restarts.get_or_create(&labels).inc();
        if delay.is_zero() {
            tracing::debug!(%kind, %scope, reason, why, "Restarting watch");
        } else if known {
            tracing::debug!(%kind, %scope, reason, why, ?delay, "Watch is still down");
        } else {
            tracing::warn!(%kind, %scope, reason, why, ?delay, "Watch is down");
        }
    }
}

/// A watch began: its gauges are read at each scrape.
pub(crate) struct WatchBegan {
    pub(crate) kind: Arc<str>,
    pub(crate) reading: Box<dyn Fn() -> Option<WatchGauges> + Send + Sync>,
}

impl TelemetryEvent for WatchBegan {
    fn emit(self, families: &MetricFamilies) {
        let mut probes = families.watch.gauges.0.lock();
        probes.retain(|probe| (probe.reading)().is_some());
        probes.push(self);
    }
}

/// The gauges of a watch. Absent once it is gone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchGauges {
    pub(crate) objects: u64,
    pub(crate) age: Duration,
}

/// Gauges that grow by themselves cannot be updated by an occurrence: they are read at each scrape.
#[derive(Clone, Default)]
struct Gauges(Arc<Mutex<Vec<WatchBegan>>>);

impl Gauges {
    /// By kind: the objects of all its watches, and the age of the oldest.
    fn read(&self) -> BTreeMap<String, WatchGauges> {
        let mut kinds: BTreeMap<String, WatchGauges> = BTreeMap::new();
        for probe in self.0.lock().iter() {
            if let Some(reading) = (probe.reading)() {
                let kind = kinds.entry(probe.kind.to_string()).or_default();
                kind.objects += reading.objects;
                kind.age = kind.age.max(reading.age);
            }
        }
        kinds
    }
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

type Seconds = Gauge<f64, AtomicU64>;

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (ages, objects) = (
            Family::<KindLabel, Seconds>::default(),
            Family::<KindLabel, Gauge>::default(),
        );
        for (kind, reading) in self.read() {
            let kind = KindLabel { kind };
            ages.get_or_create(&kind).set(reading.age.as_secs_f64());
            let count = i64::try_from(reading.objects).unwrap_or(i64::MAX);
            objects.get_or_create(&kind).set(count);
        }
        let name = "aplomb_watch_freshness_seconds";
        let help = "Time since a watch last received data";
        ages.encode(encoder.encode_descriptor(name, help, None, ages.metric_type())?)?;
        let (name, help) = ("aplomb_cache_objects", "Objects held by caches");
        objects.encode(encoder.encode_descriptor(name, help, None, objects.metric_type())?)
    }
}
