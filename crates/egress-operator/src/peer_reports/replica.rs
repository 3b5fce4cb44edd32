//! The controller that probes nodes on every replica, leader or not, and maintains the replica's Lease.
//!
//! The leader's decisions use the same probes: both share a [`NodeProber`], so one process probes a node once per
//! interval. The controller writes its own Lease, deletes Leases of replicas that have not reported for an hour, and
//! writes nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Action, Cache, Clock, Context, Controller, ErrorClass, ObjectKey, Predicate, Result, Scope, View};
use aplomb_api::StableEgress;
use aplomb_api::egress::HealthSignal;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ProbedNode, REPORT_LABEL, ReachabilityReport, lease_name};
use crate::probe::NodeProber;

/// Also the field manager.
const NAME: &str = "egress-vantage";
/// Minimum interval between renewals of an unchanged report.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// A replica that has not reported for this long is gone.
const REPLICA_EXPIRY: Duration = Duration::from_secs(3600);

/// Returns the nodes to probe for a StableEgress, with their addresses.
pub type ProbeTargetsFn =
    Arc<dyn Fn(&StableEgress, &Context<StableEgress>) -> Result<Vec<(String, Vec<IpAddr>)>> + Send + Sync>;

/// Dependencies of the controller. Clones share the last report.
#[derive(Clone)]
pub struct PeerReporter {
    /// This replica, as on its leader-election lease.
    pub identity: String,
    pub namespace: String,
    pub prober: NodeProber,
    pub clock: Clock,
    pub targets: ProbeTargetsFn,
    state: Arc<Mutex<Book>>,
}

/// Reachable nodes, and the last published report.
#[derive(Default)]
struct Book {
    found: BTreeMap<ObjectKey, Found>,
    last_report: Option<(Instant, BTreeSet<ProbedNode>)>,
}

struct Found {
    interval: Duration,
    reachable: BTreeSet<String>,
}

impl PeerReporter {
    #[must_use]
    pub fn new(identity: &str, namespace: &str, prober: NodeProber, clock: Clock, targets: ProbeTargetsFn) -> Self {
        Self {
            identity: identity.to_owned(),
            namespace: namespace.to_owned(),
            prober,
            clock,
            targets,
            state: Arc::default(),
        }
    }
}

impl Book {
    fn reachable(&self) -> BTreeSet<ProbedNode> {
        let all = self.found.iter();
        all.flat_map(|(key, found)| {
            let nodes = found.reachable.iter();
            nodes.map(|node| (key.name.to_string(), node.clone()))
        })
        .collect()
    }

    /// The shortest interval; `None` when nothing is probed.
    fn min_interval(&self) -> Option<Duration> {
        self.found.values().map(|found| found.interval).min()
    }

    /// The report to publish now; `None` if it was published recently enough.
    fn pending_report(&self, interval: Duration, now: Instant) -> Option<BTreeSet<ProbedNode>> {
        let reachable = self.reachable();
        let pace = interval.max(RENEW_INTERVAL);
        let said = self.last_report.as_ref().is_some_and(|(at, said)| {
            // Reconciles are about one interval apart: one that runs slightly early must not leave the report to the
            // next.
            *said == reachable && now.duration_since(*at) < pace - pace / 10
        });
        (!said).then_some(reachable)
    }
}

/// The Leases that hold reports, in the operator's namespace.
#[must_use]
pub fn lease_scope(namespace: &str) -> Scope {
    Scope {
        namespace: Some(namespace.to_owned()),
        labels: Some(format!("{REPORT_LABEL}=true")),
        fields: None,
    }
}

/// The controller. The kinds whose caches `PeerReporter::targets` reads must be watched too.
#[must_use]
pub fn controller(shared: PeerReporter) -> Controller<StableEgress> {
    let leases = lease_scope(&shared.namespace);
    let pass = move |egress: Arc<StableEgress>, cx: Context<StableEgress>| {
        let shared = shared.clone();
        async move { shared.probe_and_publish(&egress, &cx).await }
    };
    Controller::new(NAME, pass)
        .without_leader_election()
        // Reports are read when a decision needs them, and trigger no reconcile.
        .watches::<Lease>(leases, Predicate::unless_same(|_, _| true), |_, _| Vec::new())
}

impl PeerReporter {
    async fn probe_and_publish(&self, egress: &StableEgress, cx: &Context<StableEgress>) -> Result<Action> {
        let (key, began) = (View::meta(egress).key(), Instant::now());
        let health = &egress.spec.health;
        let probes = health.signal == HealthSignal::Probe;
        if probes {
            let targets = (self.targets)(egress, cx)?;
            let round = self.prober.probe_due(&key, &targets, &health.probe, began);
            let answered = round.await.into_iter().filter(|(_, failures)| *failures == 0);
            let found = Found {
                interval: health.probe.interval.0,
                reachable: answered.map(|(node, _)| node).collect(),
            };
            self.state.lock().found.insert(key.clone(), found);
        } else {
            self.state.lock().found.remove(&key);
        }
        let alive = cx.cache::<StableEgress>()?;
        self.state.lock().found.retain(|key, _| alive.get(key).is_some());
        // Probes continue even if reports cannot be published.
        if let Err(error) = self.publish_if_changed(cx, began).await {
            tracing::warn!(%error, "Failed to publish reachability report");
        }
        if !probes {
            return Ok(Action::Done);
        }
        let due = self.prober.next_due(&key, &health.probe, Instant::now());
        // No nodes to probe yet: check again after an interval.
        let due = due.unwrap_or(health.probe.interval.0);
        Ok(Action::RequeueAfter(due.max(Duration::from_millis(100))))
    }

    async fn publish_if_changed(&self, cx: &Context<StableEgress>, began: Instant) -> Result<()> {
        let leases = cx.cache::<Lease>()?;
        let Some(interval) = self.state.lock().min_interval() else {
            return self.delete_report(cx, leases).await;
        };
        let news = self.state.lock().pending_report(interval, began);
        if let Some(reachable) = news {
            let report = ReachabilityReport::new(&self.identity, self.clock.now(), interval, reachable.clone());
            self.apply_report(cx, &report).await?;
            self.state.lock().last_report = Some((began, reachable));
        }
        self.delete_expired(cx, leases).await
    }

    /// Applies the report and creates its Lease if needed. This replica is its only writer.
    async fn apply_report(&self, cx: &Context<StableEgress>, report: &ReachabilityReport) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(cx.client(), &self.namespace);
        let params = PatchParams::apply(NAME).force();
        let lease = Patch::Apply(report.to_lease(&self.namespace));
        leases.patch(&lease_name(&self.identity), &params, &lease).await?;
        Ok(())
    }

    /// Deletes this replica's report, since nothing is probed any more.
    async fn delete_report(&self, cx: &Context<StableEgress>, leases: &Cache<Lease>) -> Result<()> {
        let own = ObjectKey::new(Some(&self.namespace), &lease_name(&self.identity));
        self.state.lock().last_report = None;
        if leases.get(&own).is_some() {
            delete_lease(cx, &own).await?;
        }
        Ok(())
    }

    /// Deletes the reports of replicas that are gone.
    async fn delete_expired(&self, cx: &Context<StableEgress>, leases: &Cache<Lease>) -> Result<()> {
        let now = self.clock.now();
        for lease in leases.list() {
            let report = ReachabilityReport::from_lease(&lease);
            let gone = report.is_none_or(|report| report.age(now) > REPLICA_EXPIRY);
            let key = View::meta(&*lease).key();
            if gone && *key.name != lease_name(&self.identity) {
                delete_lease(cx, &key).await?;
            }
        }
        Ok(())
    }
}

/// Deletes a Lease, unless it was deleted or renewed meanwhile.
async fn delete_lease(cx: &Context<StableEgress>, key: &ObjectKey) -> Result<()> {
    match cx.delete_unowned::<Lease>(key).await {
        Err(error) if error.class() == ErrorClass::Conflict => Ok(()),
        other => other,
    }
}

impl fmt::Debug for PeerReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerReporter")
            .field("identity", &self.identity)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_book(nodes: &[&str]) -> Book {
        let found = Found {
            interval: Duration::from_secs(5),
            reachable: nodes.iter().map(|&node| node.to_owned()).collect(),
        };
        Book {
            found: [(ObjectKey::new(None, "office"), found)].into(),
            last_report: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_reported_at_once_and_the_rest_every_ten_seconds() {
        let interval = Duration::from_secs(5);
        let (mut book, now) = (new_book(&["node-1"]), Instant::now());
        let said = book.pending_report(interval, now).expect("never reported");
        book.last_report = Some((now, said));
        assert_eq!(book.pending_report(interval, now + interval), None);
        assert!(book.pending_report(interval, now + 2 * interval).is_some());
        book.found.clear();
        assert!(book.pending_report(interval, now).is_some_and(|said| said.is_empty()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_is_renewed_before_it_is_too_old() {
        for seconds in [1, 5, 10, 60] {
            let interval = Duration::from_secs(seconds);
            let (mut book, began) = (new_book(&["node-1"]), Instant::now());
            let valid = ReachabilityReport::new("a", jiff::Timestamp::UNIX_EPOCH, interval, BTreeSet::new());
            let mut last = began;
            for pass in 0..100 {
                let now = began + interval * pass;
                if let Some(said) = book.pending_report(interval, now) {
                    book.last_report = Some((now, said));
                    last = now;
                }
                assert!(now - last < valid.valid, "{seconds} s");
            }
        }
    }
}
