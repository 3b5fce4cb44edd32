//! One struct per event, which writes the log line and updates the metric together.
//!
//! Every metric of the operator is defined in this module, and no other code updates metrics. The state of a
//! StableEgress is kept as a snapshot and rendered on each scrape, so that the series of a deleted node or object
//! disappear, and a standby replica exports none.

mod gateway;
mod moves;
mod provider;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aplomb::leadership::fence::Fence;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

pub use self::gateway::{GatewayDecided, GatewayRemoved};
pub use self::moves::{DeadlineBreached, MoveEnded, MoveStarted, ProbeFailed};
pub use self::provider::{ForecastReported, HcloudOperation, ProviderCall};

/// All metrics of the operator. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct EgressMetrics(Arc<Mutex<EgressCounters>>);

#[derive(Debug, Default)]
pub struct EgressCounters {
    gateways: BTreeMap<String, gateway::EgressSnapshot>,
    tallies: BTreeMap<String, moves::MoveCounters>,
    accounts: BTreeMap<String, provider::AccountCounters>,
    /// Leadership: a replica without it exports no state.
    fence: Option<Fence>,
}

/// An event that changes a metric, writes a log line, or both.
pub trait Occurrence {
    /// Updates the metrics and writes the log line.
    fn emit(self, ledger: &mut EgressCounters);
}

impl EgressMetrics {
    pub fn emit(&self, occurrence: impl Occurrence) {
        occurrence.emit(&mut self.0.lock());
    }

    /// Exports current state only while `fence` is open, since otherwise another replica does.
    pub fn set_fence(&self, fence: &Fence) {
        self.0.lock().fence.get_or_insert_with(|| fence.clone());
    }

    /// Registers every metric under its public name.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for EgressMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ledger = self.0.lock();
        let leads = ledger.fence.as_ref().is_none_or(Fence::is_open);
        if leads {
            gateway::encode(&ledger.gateways, &mut encoder)?;
        }
        moves::encode(&ledger.tallies, &mut encoder)?;
        provider::encode(&ledger.accounts, leads, &mut encoder)
    }
}

/// One sample: its labels in addition to the object's name, and its value.
type Sample<'a, V> = (Vec<(&'static str, &'a str)>, V);

/// A metric whose samples are read from a snapshot.
struct Metric<P: 'static, V: 'static> {
    name: &'static str,
    help: &'static str,
    read: fn(&P) -> Vec<Sample<'_, V>>,
}

/// Renders gauges; `key` is the label that names the object.
fn encode_gauges<P>(
    metrics: &[Metric<P, f64>],
    key: &'static str,
    pictures: &BTreeMap<String, P>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for metric in metrics {
        let mut shown = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
        for (name, picture) in pictures {
            for (labels, value) in (metric.read)(picture) {
                shown
                    .encode_family(&encode_labels(key, name, labels))?
                    .encode_gauge(&value)?;
            }
        }
    }
    Ok(())
}

/// Renders counters; `key` is the label that names the object.
fn encode_counters<P>(
    metrics: &[Metric<P, u64>],
    key: &'static str,
    pictures: &BTreeMap<String, P>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for metric in metrics {
        let mut shown = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Counter)?;
        for (name, picture) in pictures {
            for (labels, value) in (metric.read)(picture) {
                shown
                    .encode_family(&encode_labels(key, name, labels))?
                    .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
            }
        }
    }
    Ok(())
}

fn encode_labels<'a>(
    key: &'static str,
    name: &'a str,
    mut labels: Vec<(&'static str, &'a str)>,
) -> Vec<(&'static str, &'a str)> {
    labels.insert(0, (key, name));
    labels
}

#[cfg(test)]
mod tests;
