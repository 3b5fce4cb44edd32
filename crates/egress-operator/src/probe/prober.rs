//! Schedules probes, and counts consecutive failures.
//!
//! A node is probed once per interval and StableEgress, however often callers ask: a burst of events cannot turn one
//! failure into three. Callers that arrive during a probe wait for it together. No task is started: the waiting callers
//! drive the probes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb::ObjectKey;
use aplomb_api::egress;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, join_all};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::NodeProbe;

/// A node that was not requested for this many intervals is dropped.
const RETAINED_INTERVALS: u32 = 10;

type Dial = Shared<BoxFuture<'static, ()>>;
type Hook = dyn Fn(&ObjectKey, &str, &ProbeOutcome) + Send + Sync;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutcome {
    /// Consecutive failures including this one; 0 if it succeeded.
    pub failures: u32,
    /// The previous value; `None` for the first probe.
    pub before: Option<u32>,
    pub reason: Option<String>,
}

/// Probes nodes when they are due. Clones share the results.
#[derive(Clone)]
pub struct NodeProber {
    probe: Arc<dyn NodeProbe>,
    hook: Option<Arc<Hook>>,
    records: Arc<Mutex<Records>>,
}

#[derive(Default)]
struct Records {
    number: u64,
    by_key: BTreeMap<ObjectKey, BTreeMap<String, Record>>,
}

struct Record {
    /// Number of the latest probe: results of older ones are ignored.
    number: u64,
    began: Instant,
    dial: Option<Dial>,
    failures: Option<u32>,
    /// Whether the last round included it.
    in_last_round: bool,
}

impl NodeProber {
    pub fn new(probe: Arc<dyn NodeProbe>) -> Self {
        Self {
            probe,
            hook: None,
            records: Arc::default(),
        }
    }

    /// Calls `hook` after each probe, for metrics.
    #[must_use]
    pub fn on_probe(mut self, hook: impl Fn(&ObjectKey, &str, &ProbeOutcome) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Probes those of `nodes` that are due, in parallel, and returns the consecutive failures of each. Takes no longer
    /// than the timeout.
    pub async fn probe_due(
        &self,
        key: &ObjectKey,
        nodes: &[(String, Vec<IpAddr>)],
        settings: &egress::ProbeSpec,
        now: Instant,
    ) -> BTreeMap<String, u32> {
        let dials: Vec<Dial> = nodes
            .iter()
            .filter_map(|(node, addresses)| self.join_probe(key, node, addresses, settings, now))
            .collect();
        join_all(dials).await;
        let mut records = self.records.lock();
        let Some(known) = records.by_key.get_mut(key) else {
            return BTreeMap::new();
        };
        known.retain(|node, record| {
            record.in_last_round = nodes.iter().any(|(name, _)| name == node);
            record.in_last_round || now.duration_since(record.began) < settings.interval.0 * RETAINED_INTERVALS
        });
        let asked = nodes.iter().filter_map(|(node, _)| {
            let failures = known.get(node)?.failures?;
            Some((node.clone(), failures))
        });
        asked.collect()
    }

    /// Consecutive failures of the nodes of `key` that were probed.
    #[must_use]
    pub fn failures(&self, key: &ObjectKey) -> BTreeMap<String, u32> {
        let records = self.records.lock();
        let known = records.by_key.get(key).into_iter().flatten();
        known
            .filter_map(|(node, record)| Some((node.clone(), record.failures?)))
            .collect()
    }

    /// How long until one of the nodes of `key` is due; `None` if the last round had none.
    #[must_use]
    pub fn next_due(&self, key: &ObjectKey, settings: &egress::ProbeSpec, now: Instant) -> Option<Duration> {
        let records = self.records.lock();
        let known = records.by_key.get(key)?.values();
        known
            .filter(|record| record.in_last_round)
            .map(|record| probe_interval(settings).saturating_sub(now.duration_since(record.began)))
            .min()
    }

    pub fn remove(&self, key: &ObjectKey) {
        self.records.lock().by_key.remove(key);
    }

    /// The probe of `node` to wait for, if one is due or in flight.
    fn join_probe(
        &self,
        key: &ObjectKey,
        node: &str,
        addresses: &[IpAddr],
        settings: &egress::ProbeSpec,
        now: Instant,
    ) -> Option<Dial> {
        let mut records = self.records.lock();
        let known = records.by_key.get(key).and_then(|nodes| nodes.get(node));
        if let Some(record) = known
            && now.duration_since(record.began) < probe_interval(settings)
        {
            return record.dial.clone();
        }
        let failures = known.and_then(|record| record.failures);
        records.number += 1;
        let number = records.number;
        let dial = self.start_probe(key, node, addresses.to_vec(), settings, number);
        let record = Record {
            number,
            began: now,
            dial: Some(dial.clone()),
            failures,
            in_last_round: true,
        };
        let nodes = records.by_key.entry(key.clone()).or_default();
        nodes.insert(node.to_owned(), record);
        Some(dial)
    }

    fn start_probe(
        &self,
        key: &ObjectKey,
        node: &str,
        addresses: Vec<IpAddr>,
        settings: &egress::ProbeSpec,
        number: u64,
    ) -> Dial {
        let (this, key, node) = (self.clone(), key.clone(), node.to_owned());
        let (port, limit) = (settings.port, settings.timeout.0);
        let dial = async move {
            let answer = this.probe.dial(&addresses, port, limit);
            // A probe that exceeds its limit must not delay the others.
            let answer = tokio::time::timeout(limit, answer).await;
            let answer = answer.unwrap_or_else(|_| Err(format!("no response within {limit:?}")));
            this.record_result(&key, &node, number, answer);
        };
        dial.boxed().shared()
    }

    fn record_result(&self, key: &ObjectKey, node: &str, number: u64, answer: Result<(), String>) {
        let outcome = {
            let mut records = self.records.lock();
            let known = records.by_key.get_mut(key).and_then(|all| all.get_mut(node));
            let Some(record) = known.filter(|record| record.number == number) else {
                return;
            };
            let (before, reason) = (record.failures, answer.err());
            let again = before.unwrap_or(0).saturating_add(1);
            let failures = reason.as_ref().map_or(0, |_| again);
            record.dial = None;
            record.failures = Some(failures);
            ProbeOutcome {
                failures,
                before,
                reason,
            }
        };
        let before = outcome.before.unwrap_or(0);
        match &outcome.reason {
            Some(reason) if before == 0 => {
                tracing::warn!(stable_egress = %key, node, reason, "Node unreachable");
            }
            None if before > 0 => {
                tracing::info!(stable_egress = %key, node, failures = before, "Node reachable again");
            }
            _ => {}
        }
        if let Some(hook) = &self.hook {
            hook(key, node, &outcome);
        }
    }
}

/// From the start of one probe to the next: a probe never overtakes the previous one.
fn probe_interval(settings: &egress::ProbeSpec) -> Duration {
    settings.interval.0.max(settings.timeout.0)
}

impl fmt::Debug for NodeProber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeProber").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
