//! How a map of pictures becomes the samples of a metric. Knows no metric.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// One sample: its labels beside the one that names the object, and its value.
pub(super) type Sample<'a, V> = (Vec<(&'static str, &'a str)>, V);

/// A metric whose samples are read from a picture.
pub(super) struct Metric<P: 'static, V: 'static> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&P) -> Vec<Sample<'_, V>>,
}

/// Shows gauges, `key` naming whose each one is.
pub(super) fn encode_gauges<P>(
    metrics: &[Metric<P, f64>],
    key: &'static str,
    pictures: &BTreeMap<String, P>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for metric in metrics {
        let mut shown =
            encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
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

/// Shows counters, `key` naming whose each one is.
pub(super) fn encode_counters<P>(
    metrics: &[Metric<P, u64>],
    key: &'static str,
    pictures: &BTreeMap<String, P>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for metric in metrics {
        let mut shown =
            encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Counter)?;
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
