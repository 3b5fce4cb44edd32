//! Metrics of the queue, under controller-runtime's names where it has them, so that its dashboards
//! and alerts work.
//!
//! Counters change with each occurrence; gauges are read from the queue at each scrape.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{MetricFamilies, TelemetryEvent};
use crate::error::ErrorClass;
use crate::queue::{FairQueue, Lane};

/// controller-runtime has the same value under both labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: Arc<str>,
    controller: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLaneLabels {
    controller: Arc<str>,
    lane: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueClassLabels {
    controller: Arc<str>,
    class: &'static str,
}

fn queue_labels(controller: &Arc<str>) -> QueueLabels {
    QueueLabels {
        name: controller.clone(),
        controller: controller.clone(),
    }
}

type Seconds = Gauge<f64, AtomicU64>;
type Histograms = Family<QueueLabels, Histogram, fn() -> Histogram>;

/// Metrics of the queue.
#[derive(Debug)]
pub struct QueueMetrics {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    queued: Histograms,
    worked: Histograms,
    unfinished: Family<QueueLabels, Seconds>,
    longest: Family<QueueLabels, Seconds>,
    retries: Family<QueueLabels, Counter>,
    oldest: Family<QueueLaneLabels, Seconds>,
    waiting: Family<QueueClassLabels, Gauge>,
}

impl Default for QueueMetrics {
    fn default() -> Self {
        // controller-runtime's buckets, so that quantiles of both can be compared.
        let histograms = || Family::new_with_constructor(histogram as fn() -> Histogram);
        Self {
            depth: Family::default(),
            adds: Family::default(),
            queued: histograms(),
            worked: histograms(),
            unfinished: Family::default(),
            longest: Family::default(),
            retries: Family::default(),
            oldest: Family::default(),
            waiting: Family::default(),
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

impl QueueMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("workqueue_depth", "Queued keys", self.depth.clone());
        registry.register("workqueue_adds", "Keys added to the queue", self.adds.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long a key is queued before it runs",
            self.queued.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long a run takes",
            self.worked.clone(),
        );
        registry.register(
            "workqueue_unfinished_work_seconds",
            "Total duration of the runs in progress",
            self.unfinished.clone(),
        );
        registry.register(
            "workqueue_longest_running_processor_seconds",
            "Duration of the longest run in progress",
            self.longest.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Keys queued again after a failure",
            self.retries.clone(),
        );
        registry.register(
            "aplomb_queue_oldest_seconds",
            "How long the oldest key of a lane has been queued",
            self.oldest.clone(),
        );
        registry.register(
            "aplomb_queue_waiting",
            "Waiting keys, by the class of the failure before the wait",
            self.waiting.clone(),
        );
    }
}

/// A key was added to the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enqueued<'a> {
    /// The controller of the queue.
    pub(crate) controller: &'a Arc<str>,
}

impl TelemetryEvent for Enqueued<'_> {
    fn emit(self, families: &MetricFamilies) {
        families.queue.adds.get_or_create(&queue_labels(self.controller)).inc();
    }
}

/// A key was taken from the queue to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dequeued<'a> {
    /// The controller of the queue.
    pub(crate) controller: &'a Arc<str>,
    /// How long it had been queued.
    pub(crate) waited: Duration,
}

impl TelemetryEvent for Dequeued<'_> {
    fn emit(self, families: &MetricFamilies) {
        let queued = families.queue.queued.get_or_create(&queue_labels(self.controller));
        queued.observe(self.waited.as_secs_f64());
    }
}

/// The run of a key ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyDone<'a> {
    /// The controller of the queue.
    pub(crate) controller: &'a Arc<str>,
    /// How long it ran.
    pub(crate) ran: Duration,
    /// Whether it will be retried because it failed.
    pub(crate) retries: bool,
}

impl TelemetryEvent for KeyDone<'_> {
    fn emit(self, families: &MetricFamilies) {
        let of = queue_labels(self.controller);
        let worked = families.queue.worked.get_or_create(&of);
        worked.observe(self.ran.as_secs_f64());
        let retries = families.queue.retries.get_or_create(&of);
        retries.inc_by(u64::from(self.retries));
    }
}

/// The gauges of a queue. To be updated before metrics are read, because ages grow without any event.
#[derive(Clone, Debug)]
pub(crate) struct QueueLevels<'a> {
    controller: &'a Arc<str>,
    depth: usize,
    unfinished: Duration,
    longest: Duration,
    oldest: [Duration; Lane::ALL.len()],
    waiting: Vec<(&'static str, usize)>,
}

impl<'a> QueueLevels<'a> {
    /// The gauges of the queue of `controller`.
    #[must_use]
    pub(crate) fn from_queue<K: Clone + Eq + Hash>(
        controller: &'a Arc<str>,
        queue: &FairQueue<K>,
        now: Duration,
    ) -> Self {
        let classes = ErrorClass::ALL.into_iter().map(Some).chain([None]);
        let word = |class: Option<ErrorClass>| class.map_or("None", ErrorClass::as_str);
        Self {
            controller,
            depth: Lane::ALL.into_iter().map(|lane| queue.depth(lane)).sum(),
            unfinished: queue.unfinished(now),
            longest: queue.longest_run(now).unwrap_or_default(),
            oldest: Lane::ALL.map(|lane| queue.oldest(lane, now).unwrap_or_default()),
            waiting: classes.map(|class| (word(class), queue.waiting_after(class))).collect(),
        }
    }
}

impl TelemetryEvent for QueueLevels<'_> {
    fn emit(self, families: &MetricFamilies) {
        let queue = &families.queue;
        let of = queue_labels(self.controller);
        queue.depth.get_or_create(&of).set(gauge(self.depth));
        let unfinished = queue.unfinished.get_or_create(&of);
        unfinished.set(self.unfinished.as_secs_f64());
        let longest = queue.longest.get_or_create(&of);
        longest.set(self.longest.as_secs_f64());
        for (lane, age) in Lane::ALL.into_iter().zip(self.oldest) {
            let of = QueueLaneLabels {
                controller: self.controller.clone(),
                lane: lane.as_str(),
            };
            queue.oldest.get_or_create(&of).set(age.as_secs_f64());
        }
        for (class, count) in self.waiting {
            let of = QueueClassLabels {
                controller: self.controller.clone(),
                class,
            };
            queue.waiting.get_or_create(&of).set(gauge(count));
        }
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::queue::{NextRun, QueueConfig, RunReason, WaitPolicy};
    use crate::telemetry::Telemetry;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn failed_once() -> FairQueue<&'static str> {
        let mut queue = FairQueue::new(QueueConfig::default());
        queue.push(&"waits", Lane::Edit, RunReason::Changed, seconds(0));
        let run = queue.pop(seconds(0)).expect("the key is queued");
        let next = NextRun::Scheduled {
            due: seconds(90),
            lane: Lane::Retry,
            reason: RunReason::Retry(ErrorClass::Unavailable),
            hold: WaitPolicy::OneEvent,
        };
        queue.complete(run.ticket, next, seconds(1));
        queue
    }

    #[test]
    fn the_queue_is_shown_under_controller_runtimes_names() {
        let controller = Arc::from("egress");
        let mut queue = failed_once();
        queue.push(&"runs", Lane::Edit, RunReason::Changed, seconds(2));
        queue.pop(seconds(2));
        queue.push(&"queued", Lane::Input, RunReason::Input("Node"), seconds(3));

        let (telemetry, mut registry) = (Telemetry::default(), Registry::default());
        telemetry.register(&mut registry);
        telemetry.emit(QueueLevels::from_queue(&controller, &queue, seconds(7)));
        telemetry.emit(Enqueued {
            controller: &controller,
        });
        telemetry.emit(Dequeued {
            controller: &controller,
            waited: seconds(1),
        });
        telemetry.emit(KeyDone {
            controller: &controller,
            ran: seconds(1),
            retries: true,
        });
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for line in [
            r#"workqueue_depth{name="egress",controller="egress"} 1"#,
            r#"workqueue_adds_total{name="egress",controller="egress"} 1"#,
            r#"workqueue_queue_duration_seconds_count{name="egress",controller="egress"} 1"#,
            r#"workqueue_work_duration_seconds_count{name="egress",controller="egress"} 1"#,
            r#"workqueue_unfinished_work_seconds{name="egress",controller="egress"} 5.0"#,
            r#"workqueue_longest_running_processor_seconds{name="egress",controller="egress"} 5.0"#,
            r#"workqueue_retries_total{name="egress",controller="egress"} 1"#,
            r#"aplomb_queue_oldest_seconds{controller="egress",lane="input"} 4.0"#,
            r#"aplomb_queue_waiting{controller="egress",class="Unavailable"} 1"#,
            r#"aplomb_queue_waiting{controller="egress",class="None"} 0"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
