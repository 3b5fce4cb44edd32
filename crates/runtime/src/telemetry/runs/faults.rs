//! Runs that a defect ended, and what became of their objects.

use std::time::Duration;

use tracing::{error, info, warn};

use super::of;
use crate::key::Key;
use crate::telemetry::{Families, Occurrence};

/// A run panicked. The run itself also ends, as a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panicked<'a> {
    /// Of which controller.
    pub(crate) controller: &'a str,
    /// Of which object.
    pub(crate) key: &'a Key,
    /// What the panic said.
    pub(crate) message: &'a str,
}

impl Occurrence for Panicked<'_> {
    fn emit(self, families: &Families) {
        families
            .runs
            .panics
            .get_or_create(&of(self.controller))
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

/// A run passed its deadline and was stopped. The run itself also ends, as a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlinePassed<'a> {
    /// Of which controller.
    pub(crate) controller: &'a str,
    /// Of which object.
    pub(crate) key: &'a Key,
    /// How long it had.
    pub(crate) after: Duration,
}

impl Occurrence for DeadlinePassed<'_> {
    fn emit(self, families: &Families) {
        families
            .runs
            .timeouts
            .get_or_create(&of(self.controller))
            .inc();
        warn!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            duration = ?self.after,
            "Reconcile passed its deadline"
        );
    }
}

/// An object is no longer run, because its reconcile failed by a defect too often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quarantined<'a> {
    /// Of which controller.
    pub(crate) controller: &'a str,
    /// Which object.
    pub(crate) key: &'a Key,
    /// After how many faults.
    pub(crate) faults: u32,
}

impl Occurrence for Quarantined<'_> {
    fn emit(self, families: &Families) {
        families
            .runs
            .quarantined
            .get_or_create(&of(self.controller))
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

/// An object left quarantine: its spec changed, it is gone, or its time is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuarantineEnded<'a> {
    /// Of which controller.
    pub(crate) controller: &'a str,
    /// Which object.
    pub(crate) key: &'a Key,
}

impl Occurrence for QuarantineEnded<'_> {
    fn emit(self, families: &Families) {
        families
            .runs
            .quarantined
            .get_or_create(&of(self.controller))
            .dec();
        info!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            "Ended the quarantine"
        );
    }
}
