//! Calls to servers and their rate limits.
//!
//! A server is named by host and path, a call by its endpoint. Of a response only numbers are
//! exported.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use tracing::{debug, info, warn};

use super::{CoderCounters, CoderEvent, CoderMetric, CoderSample, encode_counters, encode_gauges};
use crate::client::CoderEndpoint;

/// From a cached response to the longest wait for a call.
const DURATION_BUCKETS: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Debug)]
pub(super) struct ServerCounters {
    requests: BTreeMap<(CoderEndpoint, String), u64>,
    limited: BTreeMap<CoderEndpoint, u64>,
    deferred: BTreeMap<DeferReason, u64>,
    limits: BTreeMap<CoderEndpoint, (u32, u32)>,
    durations: Histogram,
    bypass_refused: u64,
    bypass_ineffective: u64,
    stale: u64,
}

/// A counter must exist at 0 before its first increase, or Prometheus misses that.
impl Default for ServerCounters {
    fn default() -> Self {
        Self {
            requests: BTreeMap::new(),
            limited: CoderEndpoint::ALL.map(|endpoint| (endpoint, 0)).into(),
            deferred: DeferReason::ALL.map(|reason| (reason, 0)).into(),
            limits: BTreeMap::new(),
            durations: Histogram::new(DURATION_BUCKETS),
            bypass_refused: 0,
            bypass_ineffective: 0,
            stale: 0,
        }
    }
}

const COUNTERS: &[CoderMetric<ServerCounters, u64>] = &[
    CoderMetric {
        name: "aplomb_coder_requests",
        help: "Calls to the server, by endpoint and status",
        read: |tally| {
            let requests = tally.requests.iter();
            requests
                .map(|((endpoint, code), count)| {
                    (vec![("endpoint", endpoint.as_str()), ("code", code.as_str())], *count)
                })
                .collect()
        },
    },
    CoderMetric {
        name: "aplomb_coder_rate_limited",
        help: "Calls that the server refused with 429, by endpoint",
        read: |tally| {
            let limited = tally.limited.iter();
            limited
                .map(|(endpoint, count)| (vec![("endpoint", endpoint.as_str())], *count))
                .collect()
        },
    },
    CoderMetric {
        name: "aplomb_coder_put_off",
        help: "Calls that were delayed, by reason",
        read: |tally| {
            let put_off = tally.deferred.iter();
            put_off
                .map(|(reason, count)| (vec![("reason", reason.as_str())], *count))
                .collect()
        },
    },
    CoderMetric {
        name: "aplomb_coder_bypass_refused",
        help: "Rate-limit bypasses that the server refused",
        read: |tally| vec![(Vec::new(), tally.bypass_refused)],
    },
    CoderMetric {
        name: "aplomb_coder_bypass_ineffective",
        help: "Rate-limit bypasses that the server ignored",
        read: |tally| vec![(Vec::new(), tally.bypass_ineffective)],
    },
    CoderMetric {
        name: "aplomb_coder_stale_calls",
        help: "Calls during which the lease was lost",
        read: |tally| vec![(Vec::new(), tally.stale)],
    },
];

const GAUGES: &[CoderMetric<ServerCounters, f64>] = &[
    CoderMetric {
        name: "aplomb_coder_budget_limit",
        help: "The server's rate limit for one path of the endpoint, as last reported",
        read: |tally| limit_samples(tally, |(limit, _)| limit),
    },
    CoderMetric {
        name: "aplomb_coder_budget_remaining",
        help: "Remaining calls of the rate limit for one path of the endpoint, as last reported",
        read: |tally| limit_samples(tally, |(_, remaining)| remaining),
    },
];

fn limit_samples(tally: &ServerCounters, read: fn((u32, u32)) -> u32) -> Vec<CoderSample<'_, f64>> {
    let budgets = tally.limits.iter();
    budgets
        .map(|(endpoint, told)| (vec![("endpoint", endpoint.as_str())], read(*told).into()))
        .collect()
}

pub(super) fn encode(
    servers: &BTreeMap<String, ServerCounters>,
    leads: bool,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    encode_counters(COUNTERS, servers, encoder)?;
    let (name, help) = ("aplomb_coder_request_seconds", "Duration of calls");
    let mut shown = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (server, tally) in servers {
        tally
            .durations
            .encode(shown.encode_family(&[("server", server.as_str())])?)?;
    }
    match leads {
        true => encode_gauges(GAUGES, servers, encoder),
        false => Ok(()),
    }
}

fn server_counters<'a>(ledger: &'a mut CoderCounters, server: &str) -> &'a mut ServerCounters {
    ledger.servers.entry(server.to_owned()).or_default()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CallCompleted<'a> {
    pub(crate) server: &'a str,
    pub(crate) endpoint: CoderEndpoint,
    /// HTTP status, if there was a response.
    pub(crate) status: Option<u16>,
    pub(crate) duration: Duration,
}

impl CoderEvent for CallCompleted<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        let (server, endpoint, status, took) = (self.server, self.endpoint, self.status, self.duration);
        let tally = server_counters(ledger, server);
        let code = status.map_or_else(|| "no_answer".to_owned(), |status| status.to_string());
        tally.durations.observe(took.as_secs_f64());
        let call = endpoint.phrase();
        if status == Some(429) {
            *tally.limited.entry(endpoint).or_default() += 1;
            info!(server, call, "Server rate limited a call");
        } else {
            debug!(server, call, code, ?took, "Called the server");
        }
        *tally.requests.entry((endpoint, code)).or_default() += 1;
    }
}

/// What delayed a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeferReason {
    /// The backoff of the object after a 429.
    Gate,
    /// The queue of the rate limiter.
    Budget,
    /// Too many uncounted calls are in flight.
    Bypass,
}

impl DeferReason {
    const ALL: [Self; 3] = [Self::Gate, Self::Budget, Self::Bypass];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Budget => "budget",
            Self::Bypass => "bypass",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CallDeferred<'a> {
    pub(crate) server: &'a str,
    pub(crate) reason: DeferReason,
}

impl CoderEvent for CallDeferred<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        let tally = server_counters(ledger, self.server);
        *tally.deferred.entry(self.reason).or_default() += 1;
    }
}

/// A server reported its rate limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitReported<'a> {
    pub(crate) server: &'a str,
    pub(crate) endpoint: CoderEndpoint,
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
}

impl CoderEvent for LimitReported<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        let tally = server_counters(ledger, self.server);
        let told = (self.limit, self.remaining);
        tally.limits.insert(self.endpoint, told);
    }
}

/// A server refused to bypass its rate limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BypassRefused<'a> {
    pub(crate) server: &'a str,
}

impl CoderEvent for BypassRefused<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        server_counters(ledger, self.server).bypass_refused += 1;
        let server = self.server;
        warn!(
            server,
            "Server refused the rate-limit bypass; it needs an owner's token"
        );
    }
}

/// A server ignored the rate-limit bypass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BypassIneffective<'a> {
    pub(crate) server: &'a str,
}

impl CoderEvent for BypassIneffective<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        server_counters(ledger, self.server).bypass_ineffective += 1;
        let server = self.server;
        warn!(server, "Server ignored the rate-limit bypass");
    }
}

/// The lease was lost during a call: another replica may have acted too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallStale<'a> {
    pub(crate) server: &'a str,
    pub(crate) endpoint: CoderEndpoint,
}

impl CoderEvent for CallStale<'_> {
    fn emit(self, ledger: &mut CoderCounters) {
        server_counters(ledger, self.server).stale += 1;
        let (server, call) = (self.server, self.endpoint.phrase());
        warn!(server, call, "Lost the lease during a call");
    }
}
