//! The record that candidates read and write, with the same fields as client-go's.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Who holds the lease, and since when by that holder's own clock.
///
/// The times are for people: no decision uses another machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderElectionRecord {
    /// `None` after a release.
    pub(crate) holder: Option<String>,
    pub(crate) duration: Duration,
    pub(crate) transitions: i32,
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
}

impl LeaderElectionRecord {
    /// Reads the record of a Lease of any writer.
    pub(crate) fn from_lease(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        Self {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            duration: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
        }
    }

    /// Writes the record into a Lease and keeps its other fields.
    pub(crate) fn write_to(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.holder.clone().unwrap_or_default());
        let seconds = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
        spec.lease_duration_seconds = Some(seconds);
        spec.lease_transitions = Some(self.transitions);
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_of_client_go_is_read_and_written_back_unchanged() {
        let theirs = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "demo", "namespace": "default", "labels": { "kept": "yes" } },
            "spec": {
                "acquireTime": "2026-01-01T00:00:00.000001Z",
                "holderIdentity": "host_6a9c",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 3,
                "renewTime": "2026-01-01T00:00:02.500000Z",
                "strategy": "OldestEmulationVersion",
            },
        });
        let mut lease: Lease = serde_json::from_value(theirs.clone()).expect("a Lease");
        let record = LeaderElectionRecord::from_lease(&lease);
        assert_eq!(record.holder.as_deref(), Some("host_6a9c"));
        assert_eq!(record.duration, Duration::from_secs(15));
        record.write_to(&mut lease);
        assert_eq!(serde_json::to_value(&lease).expect("JSON"), theirs);
    }

    #[test]
    fn a_released_lease_has_no_holder() {
        let released = json!({
            "metadata": { "name": "demo" },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 3 },
        });
        let lease: Lease = serde_json::from_value(released).expect("a Lease");
        assert_eq!(LeaderElectionRecord::from_lease(&lease).holder, None);
    }
}
