//! Second opinions: before a gateway that one replica cannot reach is replaced, the reports of the other replicas are
//! checked.
//!
//! Every replica probes the nodes and publishes the reachable ones in its own Lease. If a replica's own node is cut
//! off, its failures are disputed, and it moves nothing. Reports are advisory: nothing in this module may elect a node
//! or change the floating IP.
//!
//! This file is pure: the report and its encoding in a Lease; the caller passes the time.

mod replica;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb::Cache;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use sha2::{Digest, Sha256};

pub use self::replica::{PeerReporter, ProbeTargetsFn, controller, lease_scope};

const NAME: &str = "aplomb-egress-vantage-";
/// Label of the Leases, to select them in watches.
const REPORT_LABEL: &str = "egress.aplomb.dev/vantage";
/// The reachable nodes, as `<StableEgress>/<node>`, separated by commas.
const REACHABLE_ANNOTATION: &str = "egress.aplomb.dev/reachable";
/// Maximum length of the annotation: all annotations of an object together may hold 256 KiB.
const MAX_ANNOTATION_BYTES: usize = 128 * 1024;
/// A report is valid for this many intervals, but at least for `MIN_VALID`.
const VALID_INTERVALS: u32 = 3;
const MIN_VALID: Duration = Duration::from_secs(15);

/// A StableEgress and a node that it probes: two of them may probe a node at different ports.
type ProbedNode = (String, String);

/// The nodes that one replica reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachabilityReport {
    pub identity: String,
    /// Time of the report, by the replica's clock.
    pub at: Timestamp,
    pub valid: Duration,
    reachable: BTreeSet<ProbedNode>,
}

impl ReachabilityReport {
    /// The report of `identity` at `at`, with probes every `interval`.
    fn new(identity: &str, at: Timestamp, interval: Duration, reachable: BTreeSet<ProbedNode>) -> Self {
        let valid = (interval * VALID_INTERVALS).max(MIN_VALID);
        // A Lease has whole seconds.
        let valid = Duration::from_secs(valid.as_secs_f64().ceil() as u64);
        Self {
            identity: identity.to_owned(),
            at,
            valid,
            reachable,
        }
    }

    /// Whether it is valid at `now`. A report from the future is not valid either.
    fn is_valid(&self, now: Timestamp) -> bool {
        now.duration_since(self.at).unsigned_abs() < self.valid
    }

    /// Its age at `now`; zero if it is from the future.
    fn age(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.at)).unwrap_or_default()
    }

    fn to_lease(&self, namespace: &str) -> Lease {
        let metadata = ObjectMeta {
            name: Some(lease_name(&self.identity)),
            namespace: Some(namespace.to_owned()),
            labels: Some([(REPORT_LABEL.to_owned(), "true".to_owned())].into()),
            annotations: Some([(REACHABLE_ANNOTATION.to_owned(), self.reachable_text())].into()),
            ..ObjectMeta::default()
        };
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.valid.as_secs()).ok(),
            renew_time: Some(MicroTime(self.at)),
            ..LeaseSpec::default()
        };
        Lease {
            metadata,
            spec: Some(spec),
        }
    }

    /// A text that is too long is cut: nodes left out count as not reported.
    fn reachable_text(&self) -> String {
        let mut text = String::new();
        for (egress, node) in &self.reachable {
            if text.len() + egress.len() + node.len() + 2 > MAX_ANNOTATION_BYTES {
                break;
            }
            let comma = if text.is_empty() { "" } else { "," };
            text.extend([comma, egress, "/", node]);
        }
        text
    }

    /// Reads a report from a Lease; `None` if it does not contain one.
    fn from_lease(lease: &Lease) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let said = lease.metadata.annotations.as_ref()?.get(REACHABLE_ANNOTATION)?;
        let targets = said.split(',').filter_map(|target| target.split_once('/'));
        Some(Self {
            identity: spec.holder_identity.clone()?,
            at: spec.renew_time.as_ref()?.0,
            valid: Duration::from_secs(u64::try_from(spec.lease_duration_seconds?).ok()?),
            reachable: targets
                .map(|(egress, node)| (egress.to_owned(), node.to_owned()))
                .collect(),
        })
    }
}

/// The name of a replica's Lease. An identity may contain characters that are invalid in a name.
fn lease_name(identity: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = identity.len() <= 200 && identity.chars().all(plain) && !identity.ends_with('-') && !identity.is_empty();
    if fits {
        return format!("{NAME}{identity}");
    }
    let hash = Sha256::digest(identity.as_bytes());
    let hash = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
    format!("{NAME}{}", hash.collect::<String>())
}

/// The reports of all replicas.
#[must_use]
pub fn read_reports(leases: &Cache<Lease>) -> Vec<ReachabilityReport> {
    let leases: Vec<Arc<Lease>> = leases.list();
    leases
        .iter()
        .filter_map(|lease| ReachabilityReport::from_lease(lease))
        .collect()
}

/// Whether a replica other than `own` has a valid report that it reaches `node`, as the StableEgress `egress` probes
/// it.
#[must_use]
pub fn is_disputed(reports: &[ReachabilityReport], own: &str, egress: &str, node: &str, now: Timestamp) -> bool {
    let target = (egress.to_owned(), node.to_owned());
    let others = reports.iter().filter(|report| report.identity != own);
    others
        .filter(|report| report.is_valid(now))
        .any(|report| report.reachable.contains(&target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    fn report(identity: &str, at: i64, node: &str) -> ReachabilityReport {
        let reachable = [("office".to_owned(), node.to_owned())].into();
        ReachabilityReport::new(identity, second(at), Duration::from_secs(5), reachable)
    }

    fn disputed_at(reports: &[ReachabilityReport], now: i64) -> bool {
        is_disputed(reports, "a", "office", "node-1", second(now))
    }

    #[test]
    fn a_replica_that_reaches_the_node_disputes_the_failure() {
        assert!(disputed_at(&[report("b", 0, "node-1")], 1));
        assert!(!disputed_at(&[report("b", 0, "node-2")], 1), "another node");
        assert!(!disputed_at(&[], 1), "no other replica");
    }

    #[test]
    fn a_replica_does_not_dispute_itself() {
        assert!(!disputed_at(&[report("a", 0, "node-1")], 1));
    }

    #[test]
    fn an_old_report_disputes_nothing_and_neither_does_one_from_the_future() {
        let said = [report("b", 100, "node-1")];
        assert!(disputed_at(&said, 114), "three intervals of 5 s");
        assert!(!disputed_at(&said, 115));
        assert!(disputed_at(&said, 99), "clocks differ");
        assert!(!disputed_at(&said, 80));
    }

    #[test]
    fn a_short_interval_counts_for_a_quarter_of_a_minute_and_a_long_one_for_three() {
        let valid = |millis| {
            let interval = Duration::from_millis(millis);
            ReachabilityReport::new("b", second(0), interval, BTreeSet::new()).valid
        };
        assert_eq!(valid(1000), Duration::from_secs(15));
        assert_eq!(valid(60_000), Duration::from_secs(180));
        assert_eq!(valid(5100), Duration::from_secs(16), "whole seconds");
    }

    #[test]
    fn probes_of_another_stable_egress_do_not_count() {
        let said = [report("b", 0, "node-1")];
        assert!(!is_disputed(&said, "a", "lab", "node-1", second(1)));
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut said = report("pod-7_x", 3, "node-1");
        said.reachable.insert(("lab".to_owned(), "node-2".to_owned()));
        let lease = said.to_lease("aplomb-egress");
        assert_eq!(ReachabilityReport::from_lease(&lease), Some(said));
        let nobody = report("b", 0, "").to_lease("aplomb-egress");
        assert!(ReachabilityReport::from_lease(&nobody).is_some());
    }

    #[test]
    fn a_lease_that_is_not_a_report_is_ignored() {
        assert_eq!(ReachabilityReport::from_lease(&Lease::default()), None);
    }

    #[test]
    fn names_of_leases_are_allowed_whatever_the_identity_is() {
        assert_eq!(lease_name("egress-7f"), "aplomb-egress-vantage-egress-7f");
        let odd = lease_name("Host_1.example.com_7f3a");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(odd.chars().all(plain), "{odd}");
        assert_ne!(odd, lease_name("Host_1.example.com_7f3b"));
        assert!(lease_name(&"x".repeat(300)).len() <= 253);
    }

    #[test]
    fn what_no_annotation_can_hold_is_cut() {
        let many = (0..10_000).map(|n| ("office".to_owned(), format!("node-{n:05}-of-many")));
        let said = ReachabilityReport::new("b", second(0), MIN_VALID, many.collect());
        assert!(said.reachable_text().len() <= MAX_ANNOTATION_BYTES);
        let read = ReachabilityReport::from_lease(&said.to_lease("ns")).unwrap();
        assert!(read.reachable.is_subset(&said.reachable), "whole entries");
        assert!(read.reachable.len() > 1000);
    }
}
