//! Metrics of the data path. All metric names are defined here. The number of tunnels with their own series
//! is limited; the rest share the series `other`, so that a tenant cannot inflate a scrape.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::routing::RoutingTable;

const MAX_TUNNELS: usize = 1000;
/// The label of the rest. A tunnel's own label contains a slash.
const OTHER_TUNNELS: &str = "other";
const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const DIRECTIONS: [&str; 2] = ["received", "sent"];
/// From a cached page to a slow report.
const DURATION_BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TunnelLabels {
    tunnel: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    tunnel: Arc<str>,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BytesLabels {
    tunnel: Arc<str>,
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    tunnel: Arc<str>,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabels {
    listener: &'static str,
}

#[derive(Clone, Debug, Default)]
pub struct GatewayMetrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    tunnel_labels: Mutex<BTreeSet<Arc<str>>>,
    requests: Family<ResponseLabels, Counter>,
    seconds: Family<TunnelLabels, Histogram, fn() -> Histogram>,
    bytes: Family<BytesLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    connections: Family<ListenerLabels, Gauge>,
    refused: Family<ListenerLabels, Counter>,
    upgrades: Gauge,
    dials: Counter,
    lines_lost: Counter,
}

impl Default for Families {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        Self {
            tunnel_labels: Mutex::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            bytes: Family::default(),
            failures: Family::default(),
            connections: Family::default(),
            refused: Family::default(),
            upgrades: Gauge::default(),
            dials: Counter::default(),
            lines_lost: Counter::default(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestEnded<'a> {
    /// namespace/name of its tunnel.
    pub(crate) tunnel: Option<&'a str>,
    pub(crate) status: u16,
    /// Why the gateway itself responded.
    pub(crate) reason: Option<&'static str>,
    pub(crate) duration: Duration,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl GatewayMetrics {
    /// Registers every metric under its public name.
    pub fn register(&self, registry: &mut Registry) {
        let it = &self.0;
        registry.register(
            "aplomb_gateway_requests",
            "Completed requests by status class",
            it.requests.clone(),
        );
        registry.register(
            "aplomb_gateway_request_duration_seconds",
            "Seconds from the request head to the end of the response",
            it.seconds.clone(),
        );
        registry.register(
            "aplomb_gateway_bytes",
            "Body bytes received from and sent to clients",
            it.bytes.clone(),
        );
        registry.register(
            "aplomb_gateway_failures",
            "Requests that the gateway itself failed, by X-Aplomb-Reason",
            it.failures.clone(),
        );
        registry.register(
            "aplomb_gateway_connections",
            "Open client connections",
            it.connections.clone(),
        );
        registry.register(
            "aplomb_gateway_connections_refused",
            "Client connections refused because of a limit",
            it.refused.clone(),
        );
        registry.register(
            "aplomb_gateway_upgrades",
            "Open upgraded connections, such as WebSocket",
            it.upgrades.clone(),
        );
        registry.register(
            "aplomb_gateway_dials",
            "Attempts to connect to origins",
            it.dials.clone(),
        );
        registry.register(
            "aplomb_gateway_access_log_lines_lost",
            "Access log lines dropped because the writer fell behind",
            it.lines_lost.clone(),
        );
    }

    /// Drops the series of tunnels that left the table, which makes room for others.
    pub fn retain_tunnels(&self, table: &RoutingTable) {
        let hosts = table.hosts.values().chain(table.wildcards.values());
        let served: BTreeSet<String> = hosts.map(|host| host.tunnel.display_name()).collect();
        let mut labels = self.lock_labels();
        let gone = |label: &&Arc<str>| !served.contains(&***label);
        let gone: Vec<Arc<str>> = labels.iter().filter(gone).cloned().collect();
        labels.retain(|label| served.contains(&**label));
        drop(labels);
        for label in gone {
            self.remove(&label);
        }
    }

    pub(crate) fn record_request(&self, ended: RequestEnded<'_>) {
        let tunnel = self.tunnel_label(ended.tunnel);
        let it = &self.0;
        let labels = ResponseLabels {
            tunnel: tunnel.clone(),
            code: status_class(ended.status),
        };
        it.requests.get_or_create(&labels).inc();
        let labels = TunnelLabels { tunnel: tunnel.clone() };
        it.seconds.get_or_create(&labels).observe(ended.duration.as_secs_f64());
        for (direction, many) in DIRECTIONS.into_iter().zip([ended.received, ended.sent]) {
            let tunnel = tunnel.clone();
            let labels = BytesLabels { tunnel, direction };
            it.bytes.get_or_create(&labels).inc_by(many);
        }
        if let Some(reason) = ended.reason {
            let labels = FailureLabels { tunnel, reason };
            it.failures.get_or_create(&labels).inc();
        }
    }

    /// Counts an open client connection until the returned value is dropped.
    pub(crate) fn open_connection(&self, listener: &'static str) -> OpenGauge {
        let labels = ListenerLabels { listener };
        OpenGauge::new(self.0.connections.get_or_create_owned(&labels))
    }

    pub(crate) fn record_refused(&self, listener: &'static str) {
        let labels = ListenerLabels { listener };
        self.0.refused.get_or_create(&labels).inc();
    }

    /// Counts an open upgraded connection until the returned value is dropped.
    pub(crate) fn open_upgrade(&self) -> OpenGauge {
        OpenGauge::new(self.0.upgrades.clone())
    }

    pub(crate) fn record_dial(&self) {
        self.0.dials.inc();
    }

    pub(crate) fn record_lost_entry(&self) {
        self.0.lines_lost.inc();
    }

    fn lock_labels(&self) -> std::sync::MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.0.tunnel_labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The label of a tunnel: its own if the limit permits.
    fn tunnel_label(&self, tunnel: Option<&str>) -> Arc<str> {
        let Some(tunnel) = tunnel else {
            return OTHER_TUNNELS.into();
        };
        let mut labels = self.lock_labels();
        if let Some(label) = labels.get(tunnel) {
            return label.clone();
        }
        if labels.len() >= MAX_TUNNELS {
            return OTHER_TUNNELS.into();
        }
        let label: Arc<str> = tunnel.into();
        labels.insert(label.clone());
        label
    }

    fn remove(&self, tunnel: &Arc<str>) {
        let (it, tunnel) = (&self.0, || tunnel.clone());
        it.seconds.remove(&TunnelLabels { tunnel: tunnel() });
        for code in STATUS_CLASSES {
            let tunnel = tunnel();
            it.requests.remove(&ResponseLabels { tunnel, code });
        }
        for direction in DIRECTIONS {
            let tunnel = tunnel();
            it.bytes.remove(&BytesLabels { tunnel, direction });
        }
        for reason in crate::reason::ALL {
            let tunnel = tunnel();
            it.failures.remove(&FailureLabels { tunnel, reason });
        }
    }
}

#[derive(Debug)]
pub(crate) struct OpenGauge(Gauge);

impl OpenGauge {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for OpenGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn status_class(status: u16) -> &'static str {
    let index = usize::from(status / 100).saturating_sub(1);
    STATUS_CLASSES.get(index).copied().unwrap_or(STATUS_CLASSES[4])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(tunnel: &str) -> RequestEnded<'_> {
        RequestEnded {
            tunnel: Some(tunnel),
            status: 502,
            reason: Some(crate::reason::ORIGIN_BROKEN),
            duration: Duration::from_millis(3),
            received: 1,
            sent: 2,
        }
    }

    fn scrape(telemetry: &GatewayMetrics) -> String {
        let mut registry = Registry::default();
        telemetry.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text
    }

    #[test]
    fn tunnels_beyond_the_bound_share_a_series() {
        let telemetry = GatewayMetrics::default();
        for number in 0..MAX_TUNNELS + 5 {
            telemetry.record_request(ended(&format!("default/t{number}")));
        }
        let text = scrape(&telemetry);
        let line = "aplomb_gateway_requests_total{tunnel=\"other\",code=\"5xx\"} 5";
        assert!(text.contains(line), "no {line}");
    }

    #[test]
    fn a_tunnel_that_is_gone_takes_its_series_along() {
        let telemetry = GatewayMetrics::default();
        telemetry.record_request(ended("default/x"));
        assert!(scrape(&telemetry).contains("default/x"));
        telemetry.retain_tunnels(&RoutingTable::default());
        assert!(!scrape(&telemetry).contains("default/x"));
    }

    #[test]
    fn open_connections_are_counted_until_dropped() {
        let telemetry = GatewayMetrics::default();
        let open = telemetry.open_connection("http");
        let line = |many| format!("aplomb_gateway_connections{{listener=\"http\"}} {many}");
        assert!(scrape(&telemetry).contains(&line(1)));
        drop(open);
        assert!(scrape(&telemetry).contains(&line(0)));
    }
}
