//! Renders a map of snapshots as samples of a metric. Independent of any particular metric.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// One sample: its labels in addition to the object's name, and its value.
pub(super) type Sample<'a, V> = (Vec<(&'static str, &'a str)>, V);

/// A metric whose samples are read from a snapshot.
pub(super) struct Metric<P: 'static, V: 'static> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&P) -> Vec<Sample<'_, V>>,
}

/// Renders gauges; `key` is the label that names the object.
pub(super) fn encode_gauges<P>(
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
pub(super) fn encode_counters<P>(
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
