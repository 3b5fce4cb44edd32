//! Reconciles: logs and metrics of each, under controller-runtime's names where it has
//! them, so that its dashboards and alerts work.
//!
//! This file has the metrics; they are updated in `run` and `faults`.

mod run;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tracing::{error, info, warn};

pub use self::run::WorkersSet;
pub(crate) use self::run::{FirstWrite, RunEnded, RunOutcome, RunStarted};
use crate::key::ObjectKey;
use crate::telemetry::{MetricFamilies, TelemetryEvent};

/// controller-runtime's buckets, so that quantiles of both can be compared.
const BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunResultLabels {
    controller: Arc<str>,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunClassLabels {
    controller: Arc<str>,
    class: &'static str,
}

type Histograms = Family<ControllerLabels, Histogram, fn() -> Histogram>;

/// Metrics of reconciles.
#[derive(Debug)]
pub struct ReconcileMetrics {
    total: Family<RunResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    terminal_errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    timeouts: Family<ControllerLabels, Counter>,
    time: Histograms,
    max_concurrent: Family<ControllerLabels, Gauge>,
    active: Family<ControllerLabels, Gauge>,
    outcomes: Family<RunClassLabels, Counter>,
    quarantined: Family<ControllerLabels, Gauge>,
    event_to_write: Histograms,
}

impl Default for ReconcileMetrics {
    fn default() -> Self {
        let buckets: fn() -> Histogram = || Histogram::new(BUCKETS);
        Self {
            total: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            time: Family::new_with_constructor(buckets),
            max_concurrent: Family::default(),
            active: Family::default(),
            outcomes: Family::default(),
            quarantined: Family::default(),
            event_to_write: Family::new_with_constructor(buckets),
        }
    }
}

impl ReconcileMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "controller_runtime_reconcile",
            "Reconciles per controller and result",
            self.total.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciles that failed",
            self.errors.clone(),
        );
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that failed and are not retried until the spec changes",
            self.terminal_errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Reconciles that panicked",
            self.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_timeouts",
            "Reconciles that exceeded their deadline",
            self.timeouts.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile took",
            self.time.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles",
            self.max_concurrent.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Number of running reconciles",
            self.active.clone(),
        );
        self.register_ours(registry);
    }

    fn register_ours(&self, registry: &mut Registry) {
        registry.register(
            "aplomb_reconcile_outcomes",
            "Reconciles per controller and outcome or error class",
            self.outcomes.clone(),
        );
        registry.register(
            "aplomb_quarantined",
            "Objects not reconciled because their reconcile keeps failing",
            self.quarantined.clone(),
        );
        registry.register(
            "aplomb_event_to_write_seconds",
            "Time from the event that triggered a run to the first write of that run",
            self.event_to_write.clone(),
        );
    }
}

fn controller_labels(controller: &str) -> ControllerLabels {
    ControllerLabels {
        controller: controller.into(),
    }
}

/// A run panicked. The run itself also ends, as a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panicked<'a> {
    /// The controller.
    pub(crate) controller: &'a str,
    /// The object.
    pub(crate) key: &'a ObjectKey,
    /// The message of the panic.
    pub(crate) message: &'a str,
}

impl TelemetryEvent for Panicked<'_> {
    fn emit(self, families: &MetricFamilies) {
        families
            .runs
            .panics
            .get_or_create(&controller_labels(self.controller))
            .inc();
        error!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            err = self.message,
            "Observed a panic"
        );
    }
}

/// A run exceeded its deadline and was stopped. The run itself also ends, as a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlinePassed<'a> {
    /// The controller.
    pub(crate) controller: &'a str,
    /// The object.
    pub(crate) key: &'a ObjectKey,
    /// The deadline.
    pub(crate) after: Duration,
}

impl TelemetryEvent for DeadlinePassed<'_> {
    fn emit(self, families: &MetricFamilies) {
        families
            .runs
            .timeouts
            .get_or_create(&controller_labels(self.controller))
            .inc();
        warn!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            duration = ?self.after,
            "Reconcile exceeded its deadline"
        );
    }
}

/// An object is not reconciled any more, because its reconcile failed too many times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyQuarantined<'a> {
    /// The controller.
    pub(crate) controller: &'a str,
    /// The object.
    pub(crate) key: &'a ObjectKey,
    /// The number of failures.
    pub(crate) faults: u32,
}

impl TelemetryEvent for KeyQuarantined<'_> {
    fn emit(self, families: &MetricFamilies) {
        families
            .runs
            .quarantined
            .get_or_create(&controller_labels(self.controller))
            .inc();
        error!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            failures = self.faults,
            "Quarantined"
        );
    }
}

/// An object left quarantine: its spec changed, it was deleted, or its time is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuarantineEnded<'a> {
    /// The controller.
    pub(crate) controller: &'a str,
    /// The object.
    pub(crate) key: &'a ObjectKey,
}

impl TelemetryEvent for QuarantineEnded<'_> {
    fn emit(self, families: &MetricFamilies) {
        families
            .runs
            .quarantined
            .get_or_create(&controller_labels(self.controller))
            .dec();
        info!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            "Ended the quarantine"
        );
    }
}
