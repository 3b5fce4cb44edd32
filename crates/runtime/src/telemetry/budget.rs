//! Rate limiters and the calls that spend from them. Requests are counted under client-go's name.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tracing::{debug, info, warn};

use super::{MetricFamilies, TelemetryEvent};

/// From an unnoticeable wait to a whole request deadline.
const WAITS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: Arc<str>,
    method: Arc<str>,
    host: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabels {
    target: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    target: Arc<str>,
    lane: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    target: Arc<str>,
    verb: Arc<str>,
    resource: Arc<str>,
}

type Seconds = Counter<f64, AtomicU64>;
type Tokens = Gauge<f64, AtomicU64>;

/// Metrics of budgets and of the calls that spend from them.
#[derive(Debug)]
pub struct LimiterMetrics {
    requests: Family<RequestLabels, Counter>,
    tokens: Family<LaneLabels, Tokens>,
    waits: Family<LaneLabels, Histogram, fn() -> Histogram>,
    refused: Family<LaneLabels, Counter>,
    throttled: Family<TargetLabels, Counter>,
    closed: Family<TargetLabels, Seconds>,
    invalid_headers: Family<TargetLabels, Counter>,
    exceeded: Family<CallLabels, Counter>,
}

impl Default for LimiterMetrics {
    fn default() -> Self {
        let waits: fn() -> Histogram = || Histogram::new(WAITS);
        Self {
            requests: Family::default(),
            tokens: Family::default(),
            waits: Family::new_with_constructor(waits),
            refused: Family::default(),
            throttled: Family::default(),
            closed: Family::default(),
            invalid_headers: Family::default(),
            exceeded: Family::default(),
        }
    }
}

impl LimiterMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            self.requests.clone(),
        );
        registry.register(
            "aplomb_budget_tokens",
            "Calls a lane could make at once",
            self.tokens.clone(),
        );
        registry.register(
            "aplomb_budget_wait_seconds",
            "How long calls waited for the rate limiter",
            self.waits.clone(),
        );
        registry.register(
            "aplomb_budget_refused",
            "Calls not made because the rate limit would delay them past their deadline",
            self.refused.clone(),
        );
        registry.register(
            "aplomb_budget_throttled",
            "Calls rejected by the target with 429",
            self.throttled.clone(),
        );
        registry.register(
            "aplomb_budget_closed_seconds",
            "How long calls were blocked after throttling",
            self.closed.clone(),
        );
        registry.register(
            "aplomb_budget_nonsense_headers",
            "Invalid rate limit headers",
            self.invalid_headers.clone(),
        );
        registry.register(
            "aplomb_request_deadline_exceeded",
            "Calls that exceeded their deadline",
            self.exceeded.clone(),
        );
    }

    /// How many calls `target` has throttled.
    #[must_use]
    pub fn throttled(&self, name: &str) -> u64 {
        let counter = self.throttled.get(&target_labels(&name.into()));
        counter.map_or(0, |counter| counter.get())
    }

    /// How many calls to `target` exceeded their deadline.
    #[must_use]
    pub fn deadline_exceeded(&self, target: &str, verb: &str, resource: &str) -> u64 {
        let labels = CallLabels {
            target: target.into(),
            verb: verb.into(),
            resource: resource.into(),
        };
        let counter = self.exceeded.get(&labels);
        counter.map_or(0, |counter| counter.get())
    }
}

/// A request was answered or failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestDone<'a> {
    pub(crate) code: Option<u16>,
    pub(crate) method: &'a str,
    pub(crate) host: &'a Arc<str>,
}

impl TelemetryEvent for RequestDone<'_> {
    fn emit(self, families: &MetricFamilies) {
        let code = self.code.map_or("<error>".into(), |code| code.to_string().into());
        let labels = RequestLabels {
            code,
            method: self.method.into(),
            host: self.host.clone(),
        };
        families.budget.requests.get_or_create(&labels).inc();
    }
}

/// A call exceeded its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlineExceeded<'a> {
    pub(crate) target: &'a Arc<str>,
    pub(crate) verb: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) part: &'static str,
}

impl TelemetryEvent for DeadlineExceeded<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = CallLabels {
            target: self.target.clone(),
            verb: self.verb.into(),
            resource: self.resource.into(),
        };
        families.budget.exceeded.get_or_create(&labels).inc();
        warn!(
            target_name = %self.target,
            verb = self.verb,
            resource = self.resource,
            part = self.part,
            "Call exceeded its deadline"
        );
    }
}

/// A call may be made after its wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimiterWaited<'a> {
    pub(crate) target: &'a Arc<str>,
    pub(crate) lane: &'a Arc<str>,
    pub(crate) waited: Duration,
    pub(crate) tokens: f64,
}

impl TelemetryEvent for LimiterWaited<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = lane_labels(self.target, self.lane);
        let waits = families.budget.waits.get_or_create(&labels);
        waits.observe(self.waited.as_secs_f64());
        drop(waits);
        families.budget.tokens.get_or_create(&labels).set(self.tokens);
    }
}

/// A call is not made: it would have to wait past its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimiterRefused<'a> {
    pub(crate) target: &'a Arc<str>,
    pub(crate) lane: &'a Arc<str>,
    pub(crate) wait: Duration,
}

impl TelemetryEvent for LimiterRefused<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = lane_labels(self.target, self.lane);
        families.budget.refused.get_or_create(&labels).inc();
        debug!(target_name = %self.target, lane = %self.lane, wait = ?self.wait, "Rate limit delays the call past its deadline");
    }
}

/// A target throttled a call, or announced that it would throttle the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimiterClosed<'a> {
    pub(crate) target: &'a Arc<str>,
    pub(crate) refused: bool,
    /// How long from now.
    pub(crate) wait: Duration,
    /// By how much that is longer than the known wait.
    pub(crate) longer: Duration,
}

impl TelemetryEvent for LimiterClosed<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = target_labels(self.target);
        let budget = &families.budget;
        budget.throttled.get_or_create(&labels).inc_by(self.refused.into());
        let closed = budget.closed.get_or_create(&labels);
        closed.inc_by(self.longer.as_secs_f64());
        if self.longer.is_zero() {
            debug!(target_name = %self.target, wait = ?self.wait, "Throttled again");
        } else {
            info!(target_name = %self.target, wait = ?self.wait, "Throttled; pausing calls");
        }
    }
}

/// A target throttled reads of one collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectionThrottled<'a> {
    pub(crate) target: &'a Arc<str>,
    pub(crate) resource: &'a str,
    pub(crate) wait: Duration,
}

impl TelemetryEvent for CollectionThrottled<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = target_labels(self.target);
        families.budget.throttled.get_or_create(&labels).inc();
        debug!(target_name = %self.target, resource = self.resource, wait = ?self.wait, "Collection throttled");
    }
}

/// A response had invalid rate limit headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InvalidLimitHeader<'a> {
    pub(crate) target: &'a Arc<str>,
    pub(crate) headers: u64,
}

impl TelemetryEvent for InvalidLimitHeader<'_> {
    fn emit(self, families: &MetricFamilies) {
        let labels = target_labels(self.target);
        families
            .budget
            .invalid_headers
            .get_or_create(&labels)
            .inc_by(self.headers);
        debug!(target_name = %self.target, "Ignored invalid rate limit headers");
    }
}

fn target_labels(target: &Arc<str>) -> TargetLabels {
    TargetLabels { target: target.clone() }
}

fn lane_labels(target: &Arc<str>, lane: &Arc<str>) -> LaneLabels {
    LaneLabels {
        target: target.clone(),
        lane: lane.clone(),
    }
}
