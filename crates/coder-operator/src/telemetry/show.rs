//! Renders a map of snapshots as samples of a metric. Independent of any particular metric.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::object::Object;

/// Labels of one sample.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;
/// One sample: its labels in addition to those of its subject, and its value.
pub(super) type Sample<'a, V> = (Labels<'a>, V);

/// The subject of a sample.
pub(super) trait Subject {
    fn labels(&self) -> Labels<'_>;
}

/// A server.
impl Subject for String {
    fn labels(&self) -> Labels<'_> {
        vec![("server", self)]
    }
}

impl Subject for Object {
    fn labels(&self) -> Labels<'_> {
        let namespace = self.key.namespace.as_deref().unwrap_or_default();
        vec![("kind", self.kind), ("namespace", namespace), ("name", &self.key.name)]
    }
}

/// Orphans, by kind and server.
impl Subject for (&'static str, String) {
    fn labels(&self) -> Labels<'_> {
        vec![("kind", self.0), ("server", &self.1)]
    }
}

/// A metric whose samples are read from a snapshot.
pub(super) struct Metric<P: 'static, V: 'static> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&P) -> Vec<Sample<'_, V>>,
}

/// Renders gauges.
pub(super) fn encode_gauges<K: Subject, P>(
    metrics: &[Metric<P, f64>],
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

/// Renders counters.
pub(super) fn encode_counters<K: Subject, P>(
    metrics: &[Metric<P, u64>],
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
