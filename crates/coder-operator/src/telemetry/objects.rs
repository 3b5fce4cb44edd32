//! State of objects, and counters of their keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aplomb::ObjectRef;
use jiff::Timestamp;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use tracing::{info, warn};

use super::{CoderCounters, CoderEvent, CoderMetric, CoderSample, encode_counters, encode_gauges};

/// From a write to a rollout that waits for jobs.
const DURATION_BUCKETS: [f64; 11] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0];

/// An object as of its last decision.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectSnapshot {
    ready: bool,
    reason: String,
    throttled: bool,
    daemons: Option<(u32, u32)>,
    rotating: Option<Timestamp>,
    deleting: Option<Timestamp>,
}

/// Rotations by reason.
pub(super) type Rotations = BTreeMap<String, u64>;
/// Stages by kind.
pub(super) type Stages = BTreeMap<(Arc<str>, RotationStage), Histogram>;

const GAUGES: &[CoderMetric<ObjectSnapshot, f64>] = &[
    CoderMetric {
        name: "aplomb_coder_ready",
        help: "Whether the condition Ready is True",
        read: |seen| single_sample(bool_value(seen.ready)),
    },
    CoderMetric {
        name: "aplomb_coder_state",
        help: "1 for the reason of the condition Ready",
        read: |seen| vec![(vec![("reason", seen.reason.as_str())], 1.0)],
    },
    CoderMetric {
        name: "aplomb_coder_throttled",
        help: "1 while the server rate limits calls",
        read: |seen| single_sample(bool_value(seen.throttled)),
    },
    CoderMetric {
        name: "aplomb_coder_daemons_connected",
        help: "Daemons connected to the server with a valid key, at most as many as wanted",
        read: |seen| optional_sample(seen.daemons.map(|(connected, _)| connected.into())),
    },
    CoderMetric {
        name: "aplomb_coder_daemons_wanted",
        help: "Daemons that should be connected",
        read: |seen| optional_sample(seen.daemons.map(|(_, wanted)| wanted.into())),
    },
    CoderMetric {
        name: "aplomb_coder_rotating_since_timestamp_seconds",
        help: "Since when the oldest replaced key or proxy waits to be deleted",
        read: |seen| optional_sample(seen.rotating.map(unix_seconds)),
    },
    CoderMetric {
        name: "aplomb_coder_deleting_since_timestamp_seconds",
        help: "Since when a deletion waits for the server",
        read: |seen| optional_sample(seen.deleting.map(unix_seconds)),
    },
];

const ROTATIONS: &[CoderMetric<Rotations, u64>] = &[CoderMetric {
    name: "aplomb_coder_rotations",
    help: "Replaced keys or tokens, by reason",
    read: |rotations| {
        let rotations = rotations.iter();
        rotations
            .map(|(reason, count)| (vec![("reason", reason.as_str())], *count))
            .collect()
    },
}];

const ORPHANS: &[CoderMetric<u64, u64>] = &[CoderMetric {
    name: "aplomb_coder_orphaned",
    help: "Keys or proxies left behind at a server",
    read: |count| vec![(Vec::new(), *count)],
}];

fn bool_value(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

#[allow(clippy::cast_precision_loss, reason = "seconds are exact up to 2^53")]
fn unix_seconds(since: Timestamp) -> f64 {
    since.as_second() as f64
}

fn single_sample<'a>(value: f64) -> Vec<CoderSample<'a, f64>> {
    vec![(Vec::new(), value)]
}

fn optional_sample<'a>(value: Option<f64>) -> Vec<CoderSample<'a, f64>> {
    value.map(single_sample).unwrap_or_default()
}

pub(super) fn encode(
    ledger: &CoderCounters,
    leads: bool,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    if leads {
        encode_gauges(GAUGES, &ledger.objects, encoder)?;
    }
    encode_counters(ROTATIONS, &ledger.rotations, encoder)?;
    encode_counters(ORPHANS, &ledger.orphans, encoder)?;
    let name = "aplomb_coder_rotation_stage_seconds";
    let help = "Duration of each stage of a rotation";
    let mut shown = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for ((kind, stage), histogram) in &ledger.stages {
        let labels = [("kind", &**kind), ("stage", stage.as_str())];
        histogram.encode(shown.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A decision was made for an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectDecided<'a> {
    pub(crate) object: &'a ObjectRef,
    /// Its server, once known.
    pub(crate) server: Option<&'a str>,
    /// Whether it is ready.
    pub(crate) ready: bool,
    /// The reason of the condition Ready.
    pub(crate) reason: &'a str,
    /// Whether the server rate limits calls.
    pub(crate) throttled: bool,
    /// Connected and wanted daemons, if known.
    pub(crate) daemons: Option<(u32, u32)>,
    /// Since when the oldest replaced key or proxy waits to be deleted.
    pub(crate) rotating: Option<Timestamp>,
    /// Since when it is being deleted.
    pub(crate) deleting: Option<Timestamp>,
}

impl CoderEvent for ObjectDecided<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        if let Some(server) = self.server {
            // A counter must exist at 0 before its first increase, or Prometheus misses that.
            let key = (self.object.kind.clone(), host_name(server).to_owned());
            ledger.orphans.entry(key).or_insert(0);
        }
        let picture = ObjectSnapshot {
            ready: self.ready,
            reason: self.reason.to_owned(),
            throttled: self.throttled,
            daemons: self.daemons,
            rotating: self.rotating,
            deleting: self.deleting,
        };
        let old = ledger.objects.insert(self.object.clone(), picture);
        if old.is_some_and(|old| old.ready == self.ready && old.reason == self.reason) {
            return;
        }
        let (object, reason) = (self.object, self.reason);
        match self.ready {
            true => info!(%object, reason, "Object is ready"),
            false => info!(%object, reason, "Object is not ready"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectRemoved<'a> {
    pub(crate) object: &'a ObjectRef,
}

impl CoderEvent for ObjectRemoved<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        ledger.rotations.remove(self.object);
        if ledger.objects.remove(self.object).is_some() {
            info!(object = %self.object, "Object deleted");
        }
    }
}

/// A key or token was replaced. Emitted once for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRotated<'a> {
    pub(crate) object: &'a ObjectRef,
    /// The reason, a fixed word of the operator.
    pub(crate) reason: &'a str,
}

impl CoderEvent for KeyRotated<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        let rotations = ledger.rotations.entry(self.object.clone()).or_default();
        *rotations.entry(self.reason.to_owned()).or_default() += 1;
        let (object, reason) = (self.object, self.reason);
        info!(%object, reason, "Replaced key");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RotationStage {
    /// From the decision to the new key.
    Create,
    /// From the new key in its Secret until the old one is deleted.
    Rollout,
}

impl RotationStage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Rollout => "rollout",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RotationStageEnded<'a> {
    pub(crate) object: &'a ObjectRef,
    pub(crate) stage: RotationStage,
    pub(crate) duration: Duration,
}

impl CoderEvent for RotationStageEnded<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        let key = (self.object.kind.clone(), self.stage);
        let histogram = ledger.stages.entry(key);
        let histogram = histogram.or_insert_with(|| Histogram::new(DURATION_BUCKETS));
        histogram.observe(self.duration.as_secs_f64());
    }
}

/// The host of a server's URL, the server's name in all metrics.
fn host_name(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// A key or proxy was left behind at its server, because its object had to be deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyOrphaned<'a> {
    pub(crate) object: &'a ObjectRef,
    pub(crate) server: &'a str,
    pub(crate) name: &'a str,
}

impl CoderEvent for KeyOrphaned<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        let key = (self.object.kind.clone(), host_name(self.server).to_owned());
        *ledger.orphans.entry(key).or_default() += 1;
        let (object, server, name) = (self.object, self.server, self.name);
        warn!(%object, server, name, "Left a key or proxy behind at the server; delete it there");
    }
}
