//! Metrics of the operator. All metric names are defined here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aplomb::ObjectKey;
use aplomb::leadership::fence::Fence;
use aplomb_api::tunnel::TunnelTimeline;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tracing::{debug, info};

use crate::probe::result::ProbeResult;

/// From one write to the patience of a user.
const STAGE_BUCKETS: [f64; 12] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 600.0];

/// The metrics of the operator. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct TunnelMetrics(Arc<Mutex<TunnelCounters>>);

#[derive(Debug, Default)]
struct TunnelCounters {
    /// Whether each tunnel is ready, and the reason.
    ready: BTreeMap<ObjectKey, (bool, String)>,
    /// How long each stage took, from the moment the spec was first seen.
    stages: BTreeMap<&'static str, Histogram>,
    /// Rounds of proofs, by outcome.
    proofs: BTreeMap<&'static str, u64>,
    /// Set while this replica leads. A standby exports nothing.
    fence: Option<Fence>,
}

impl TunnelMetrics {
    pub(crate) fn record_probe(&self, key: &ObjectKey, evidence: &ProbeResult) {
        let failed = evidence.tunnel.as_ref().err();
        let word = match failed {
            Some(failure) => failure.reason,
            None if evidence.is_success() => "Proven",
            None => "Incomplete",
        };
        *self.lock().proofs.entry(word).or_default() += 1;
        debug!(tunnel = %key, outcome = word, "Probed tunnel through every gateway");
    }

    /// Records the end of a pass: the old and new timeline, and whether the tunnel is ready.
    pub(crate) fn record_pass(
        &self,
        key: &ObjectKey,
        lines: (Option<&TunnelTimeline>, &TunnelTimeline),
        ready: (bool, &str),
        fence: &Fence,
    ) {
        let mut ledger = self.lock();
        ledger.fence.get_or_insert_with(|| fence.clone());
        for (stage, took) in reached_stages(lines.0, lines.1) {
            let histogram = ledger.stages.entry(stage);
            histogram.or_insert_with(|| Histogram::new(STAGE_BUCKETS)).observe(took);
            if stage == "proven" {
                info!(tunnel = %key, seconds = took, "Tunnel proven");
            }
        }
        ledger.ready.insert(key.clone(), (ready.0, ready.1.to_owned()));
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.lock().ready.remove(key);
    }

    /// Registers every metric under its public name.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, TunnelCounters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the time at which a stage was reached.
type StageTime = fn(&TunnelTimeline) -> Option<&MicroTime>;

/// The stages that `new` has reached and `old` had not, with the seconds since the spec was first seen.
fn reached_stages(old: Option<&TunnelTimeline>, new: &TunnelTimeline) -> Vec<(&'static str, f64)> {
    let old = old.filter(|old| old.generation == new.generation);
    let stages: [(&str, StageTime); 4] = [
        ("accepted", |line| line.accepted.as_ref()),
        ("children", |line| line.children_written.as_ref()),
        ("programmed", |line| line.programmed.as_ref()),
        ("proven", |line| line.proven.as_ref()),
    ];
    let Some(created) = &new.created else {
        return Vec::new();
    };
    let fresh = stages.iter().filter(|(_, read)| old.and_then(read).is_none());
    fresh
        .filter_map(|(stage, read)| Some((*stage, read(new)?)))
        .map(|(stage, at)| (stage, at.0.duration_since(created.0).as_secs_f64().max(0.0)))
        .collect()
}

impl Collector for TunnelMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ledger = self.lock();
        let leads = ledger.fence.as_ref().is_none_or(Fence::is_open);
        let help = "Whether the tunnel is proven to carry traffic";
        let mut shown = encoder.encode_descriptor("aplomb_tunnel_ready", help, None, MetricType::Gauge)?;
        for (key, (ready, reason)) in ledger.ready.iter().filter(|_| leads) {
            let namespace = key.namespace.as_deref().unwrap_or_default();
            let labels = [("namespace", namespace), ("name", &*key.name), ("reason", reason)];
            shown.encode_family(&labels)?.encode_gauge(&i64::from(*ready))?;
        }
        let help = "Seconds from the first sight of a spec to each stage of its tunnel";
        let name = "aplomb_tunnel_stage_seconds";
        let mut shown = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (stage, histogram) in &ledger.stages {
            histogram.encode(shown.encode_family(&[("stage", *stage)])?)?;
        }
        let help = "Rounds of proofs, by outcome";
        let mut shown = encoder.encode_descriptor("aplomb_tunnel_proofs", help, None, MetricType::Counter)?;
        for (outcome, count) in &ledger.proofs {
            shown
                .encode_family(&[("outcome", *outcome)])?
                .encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }
}
