//! One struct per event, which writes the log line and updates the metric together.
//!
//! Every metric of the operator is defined in this module, and no other code updates metrics. The
//! state of an object is kept as a snapshot and rendered on each scrape, so that the series of a
//! deleted object disappear, and a standby replica exports none. No label contains the name of a
//! key.
//!
//! | metric | labels in addition to `server` | description |
//! |---|---|---|
//! | `aplomb_coder_requests_total` | `endpoint`, `code` | calls, by status or `no_answer` |
//! | `aplomb_coder_request_seconds` | | how long calls took (histogram) |
//! | `aplomb_coder_rate_limited_total` | `endpoint` | calls refused with 429 |
//! | `aplomb_coder_put_off_total` | `reason` = `gate`, `budget`, `bypass` | calls that were delayed
//! |
//! | `aplomb_coder_budget_limit` | `endpoint` | the rate limit of a path, as last reported |
//! | `aplomb_coder_budget_remaining` | `endpoint` | remaining calls of it, as last reported |
//! | `aplomb_coder_bypass_refused_total` | | 412 or 428 to the bypass header |
//! | `aplomb_coder_bypass_ineffective_total` | | bypass headers that the server ignored |
//! | `aplomb_coder_stale_calls_total` | | calls during which the lease was lost |
//!
//! | metric | labels in addition to `kind`, `namespace`, `name` | description |
//! |---|---|---|
//! | `aplomb_coder_ready` | | 1 if the condition Ready is True |
//! | `aplomb_coder_state` | `reason` | 1 for the reason of the condition Ready |
//! | `aplomb_coder_throttled` | | 1 while the server rate limits calls |
//! | `aplomb_coder_daemons_connected` | | daemons connected to the server with the current key |
//! | `aplomb_coder_daemons_wanted` | | daemons that should be connected |
//! | `aplomb_coder_rotating_since_timestamp_seconds` | | since when a replaced key or proxy waits
//! to be deleted |
//! | `aplomb_coder_deleting_since_timestamp_seconds` | | since when a deletion waits |
//! | `aplomb_coder_rotations_total` | `reason` | keys or tokens that were replaced |
//!
//! | metric | labels | description |
//! |---|---|---|
//! | `aplomb_coder_orphaned_total` | `kind`, `server` | keys or proxies left behind at the server |
//! | `aplomb_coder_rotation_stage_seconds` | `kind`, `stage` | how long each stage took (histogram) |

mod calls;
mod objects;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aplomb::ObjectRef;
use aplomb::leadership::fence::Fence;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

pub(crate) use self::calls::{
    BypassIneffective, BypassRefused, CallCompleted, CallDeferred, CallStale, DeferReason, LimitReported,
};
pub(crate) use self::objects::{
    KeyOrphaned, KeyRotated, ObjectDecided, ObjectRemoved, RotationStage, RotationStageEnded,
};

/// All metrics of the operator. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CoderMetrics(Arc<Mutex<CoderCounters>>);

/// The recorded values.
#[derive(Debug, Default)]
pub(crate) struct CoderCounters {
    servers: BTreeMap<String, calls::ServerCounters>,
    objects: BTreeMap<ObjectRef, objects::ObjectSnapshot>,
    rotations: BTreeMap<ObjectRef, objects::Rotations>,
    orphans: BTreeMap<(Arc<str>, String), u64>,
    stages: objects::Stages,
    /// Leadership: a replica without it exports no state.
    fence: Option<Fence>,
}

/// An event that changes a metric, writes a log line, or both.
pub(crate) trait CoderEvent {
    /// Updates the metrics and writes the log line.
    fn emit(self, ledger: &mut CoderCounters);
}

impl CoderMetrics {
    /// Counts and logs an event.
    pub(crate) fn emit(&self, occurrence: impl CoderEvent) {
        occurrence.emit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Exports current state only while `fence` is open, since otherwise another replica does.
    pub(crate) fn set_fence(&self, fence: &Fence) {
        let mut ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.fence.get_or_insert_with(|| fence.clone());
    }

    /// Registers every metric under its public name.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for CoderMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leads = ledger.fence.as_ref().is_none_or(Fence::is_open);
        calls::encode(&ledger.servers, leads, &mut encoder)?;
        objects::encode(&ledger, leads, &mut encoder)
    }
}

/// Labels of one sample.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;
/// One sample: its labels in addition to those of its subject, and its value.
pub(super) type CoderSample<'a, V> = (Labels<'a>, V);

/// The subject of a sample.
pub(super) trait Subject {
    fn labels(&self) -> Labels<'_>;
}

impl Subject for String {
    fn labels(&self) -> Labels<'_> {
        vec![("server", self)]
    }
}

impl Subject for ObjectRef {
    fn labels(&self) -> Labels<'_> {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        vec![
            ("kind", &*self.kind),
            ("namespace", namespace),
            ("name", &self.key.name),
        ]
    }
}

/// Orphans, by kind and server.
impl Subject for (Arc<str>, String) {
    fn labels(&self) -> Labels<'_> {
        vec![("kind", &*self.0), ("server", &self.1)]
    }
}

/// A metric whose samples are read from a snapshot.
pub(super) struct CoderMetric<P: 'static, V: 'static> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&P) -> Vec<CoderSample<'_, V>>,
}

pub(super) fn encode_gauges<K: Subject, P>(
    metrics: &[CoderMetric<P, f64>],
    pictures: &BTreeMap<K, P>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for metric in metrics {
        let mut shown = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
        for (subject, picture) in pictures {
            for (labels, value) in (metric.read)(picture) {
                let labels = [subject.labels(), labels].concat();
                shown.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
    }
    Ok(())
}

pub(super) fn encode_counters<K: Subject, P>(
    metrics: &[CoderMetric<P, u64>],
    pictures: &BTreeMap<K, P>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for metric in metrics {
        let mut shown = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Counter)?;
        for (subject, picture) in pictures {
            for (labels, value) in (metric.read)(picture) {
                let labels = [subject.labels(), labels].concat();
                shown
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
