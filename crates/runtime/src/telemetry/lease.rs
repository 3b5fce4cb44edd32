//! Leader election: the leader, its changes, and renewals that needed an extra read.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{debug, info, warn};

use super::{MetricFamilies, TelemetryEvent};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: Arc<str>,
}

fn lease_labels(name: &str) -> LeaseLabels {
    LeaseLabels { name: name.into() }
}

/// Metrics of leader election, under client-go's names where it has them.
#[derive(Debug, Default)]
pub struct LeaseMetrics {
    master: Family<LeaseLabels, Gauge>,
    slowpath: Family<LeaseLabels, Counter>,
    transitions: Family<LeaseLabels, Counter>,
}

impl LeaseMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "leader_election_master_status",
            "Whether this replica leads",
            self.master.clone(),
        );
        registry.register(
            "leader_election_slowpath",
            "Renewals that had to read the lease first",
            self.slowpath.clone(),
        );
        registry.register(
            "aplomb_lease_transitions",
            "How often this replica gained or lost leadership",
            self.transitions.clone(),
        );
    }

    fn set(&self, name: &str, leads: bool) {
        let name = lease_labels(name);
        self.master.get_or_create(&name).set(leads.into());
        self.transitions.get_or_create(&name).inc();
    }
}

/// This replica contends for a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseContended<'a> {
    /// The lease.
    pub(crate) lease: &'a str,
    /// The identity of this replica.
    pub(crate) identity: &'a str,
}

impl TelemetryEvent for LeaseContended<'_> {
    fn emit(self, families: &MetricFamilies) {
        let name = lease_labels(self.lease);
        families.lease.master.get_or_create(&name).set(0);
        families.lease.slowpath.get_or_create(&name).inc_by(0);
        info!(lease = self.lease, identity = self.identity, "Contending for the lease");
    }
}

/// This replica leads from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseGained<'a> {
    /// The lease.
    pub(crate) lease: &'a str,
    /// The identity of this replica.
    pub(crate) identity: &'a str,
    /// How often the lease has changed hands.
    pub(crate) transitions: i32,
}

impl TelemetryEvent for LeaseGained<'_> {
    fn emit(self, families: &MetricFamilies) {
        families.lease.set(self.lease, true);
        info!(
            lease = self.lease,
            identity = self.identity,
            transitions = self.transitions,
            "Became leader"
        );
    }
}

/// This replica lost the leadership without being stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseLost<'a> {
    /// The lease.
    pub(crate) lease: &'a str,
    /// The reason.
    pub(crate) reason: &'a str,
}

impl TelemetryEvent for LeaseLost<'_> {
    fn emit(self, families: &MetricFamilies) {
        families.lease.set(self.lease, false);
        warn!(lease = self.lease, reason = self.reason, "Lost the lease");
    }
}

/// This replica released the lease, so that another need not wait for it to expire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseReleased<'a> {
    /// The lease.
    pub(crate) lease: &'a str,
}

impl TelemetryEvent for LeaseReleased<'_> {
    fn emit(self, families: &MetricFamilies) {
        families.lease.set(self.lease, false);
        info!(lease = self.lease, "Released the lease");
    }
}

/// A holder had to read the lease before it could renew it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSlowPath<'a> {
    /// The lease.
    pub(crate) lease: &'a str,
}

impl TelemetryEvent for LeaseSlowPath<'_> {
    fn emit(self, families: &MetricFamilies) {
        families.lease.slowpath.get_or_create(&lease_labels(self.lease)).inc();
    }
}

/// A call for the lease failed; it is retried while there is time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseCallFailed<'a> {
    /// The lease.
    pub(crate) lease: &'a str,
    /// `read`, `create`, `update` or `watch`.
    pub(crate) verb: &'static str,
    /// The error.
    pub(crate) err: &'a str,
    /// Whether this replica leads and will lose the lease if this continues.
    pub(crate) leading: bool,
}

impl TelemetryEvent for LeaseCallFailed<'_> {
    fn emit(self, _families: &MetricFamilies) {
        if self.leading {
            warn!(
                lease = self.lease,
                verb = self.verb,
                err = self.err,
                "Failed to renew the lease"
            );
        } else {
            debug!(
                lease = self.lease,
                verb = self.verb,
                err = self.err,
                "Failed to reach the lease"
            );
        }
    }
}
