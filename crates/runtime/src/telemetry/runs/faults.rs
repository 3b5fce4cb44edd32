//! Runs that panicked or exceeded their deadline, and quarantined objects.

use std::time::Duration;

use tracing::{error, info, warn};

use super::controller_labels;
use crate::key::ObjectKey;
use crate::telemetry::{MetricFamilies, TelemetryEvent};

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
