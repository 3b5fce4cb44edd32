//! Runs from beginning to end.
//!
//! A conflict is not logged as an error: the key waits for the winning version and runs again at once, and it is
//! logged at debug until the tenth in a row.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::{ReconcileMetrics, RunClassLabels, RunResultLabels, controller_labels};
use crate::action::Action;
use crate::error::{Error, ErrorClass};
use crate::key::ObjectKey;
use crate::queue::{Lane, RunReason};
use crate::telemetry::{MetricFamilies, TelemetryEvent};

/// From this many conflicts in a row on, another writer keeps overwriting the object, and a warning is logged.
const CONFLICTS_WORTH_A_WARNING: u32 = 10;

/// A controller started its workers.
#[derive(Clone, Copy, Debug)]
pub struct WorkersSet<'a> {
    /// The controller.
    pub controller: &'a str,
    /// The maximum number of concurrent runs.
    pub concurrency: usize,
}

impl TelemetryEvent for WorkersSet<'_> {
    fn emit(self, families: &MetricFamilies) {
        let limit = i64::try_from(self.concurrency).unwrap_or(i64::MAX);
        let runs = &families.runs;
        runs.max_concurrent
            .get_or_create(&controller_labels(self.controller))
            .set(limit);
        // Present from the beginning, so that a rate over it has a first value.
        runs.errors.get_or_create(&controller_labels(self.controller)).inc_by(0);
        info!(
            controller = self.controller,
            workers = self.concurrency,
            "Starting workers"
        );
    }
}

/// A run began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunStarted<'a> {
    /// The controller.
    pub(crate) controller: &'a str,
    /// The object.
    pub(crate) key: &'a ObjectKey,
    /// What triggered it.
    pub(crate) reasons: &'a [RunReason],
    /// The lane it was taken from.
    pub(crate) lane: Lane,
    /// How long it had waited.
    pub(crate) waited: Duration,
}

impl TelemetryEvent for RunStarted<'_> {
    fn emit(self, families: &MetricFamilies) {
        families
            .runs
            .active
            .get_or_create(&controller_labels(self.controller))
            .inc();
        debug!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            reason = join_reasons(self.reasons),
            lane = self.lane.as_str(),
            waited = ?self.waited,
            "Reconciling"
        );
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunOutcome<'a> {
    /// The object did not exist any more.
    Gone,
    /// With an action.
    Ended(&'a Action),
    /// With an error.
    Failed(&'a Error),
}

impl<'a> From<&'a Action> for RunOutcome<'a> {
    fn from(verdict: &'a Action) -> Self {
        Self::Ended(verdict)
    }
}

impl<'a> From<&'a Error> for RunOutcome<'a> {
    fn from(error: &'a Error) -> Self {
        Self::Failed(error)
    }
}

impl RunOutcome<'_> {
    /// The word in metrics and logs.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "Gone",
            Self::Ended(Action::Done) => "Settled",
            Self::Ended(Action::RequeueAfter(_)) => "Recheck",
            Self::Ended(Action::Reject { .. }) => "Rejected",
            Self::Failed(error) => error.class().as_str(),
        }
    }

    /// The matching result of controller-runtime.
    fn result(self) -> &'static str {
        match self {
            Self::Gone | Self::Ended(Action::Done) => "success",
            Self::Ended(Action::RequeueAfter(_)) => "requeue_after",
            Self::Ended(Action::Reject { .. }) => "error",
            Self::Failed(error) => match error.class() {
                ErrorClass::Conflict => "requeue",
                ErrorClass::Throttled => "requeue_after",
                _ => "error",
            },
        }
    }

    fn is_terminal(self) -> bool {
        match self {
            Self::Gone => false,
            Self::Ended(verdict) => matches!(verdict, Action::Reject { .. }),
            Self::Failed(error) => error.class() == ErrorClass::Invalid,
        }
    }
}

/// A run ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunEnded<'a> {
    /// The controller.
    pub(crate) controller: &'a str,
    /// The object.
    pub(crate) key: &'a ObjectKey,
    /// What had triggered it.
    pub(crate) reasons: &'a [RunReason],
    /// The lane it was taken from.
    pub(crate) lane: Lane,
    /// How it ended.
    pub(crate) outcome: RunOutcome<'a>,
    /// How many times in a row it has now failed with this class.
    pub(crate) in_a_row: u32,
    /// How long it took.
    pub(crate) took: Duration,
}

impl TelemetryEvent for RunEnded<'_> {
    fn emit(self, families: &MetricFamilies) {
        self.count(&families.runs);
        match self.outcome {
            RunOutcome::Ended(Action::Reject { message, .. }) => self.log_failure(message),
            RunOutcome::Gone | RunOutcome::Ended(_) => self.log_success(),
            RunOutcome::Failed(error) if self.is_quiet(error) => {
                debug!(
                    controller = self.controller,
                    namespace = self.key.namespace.as_deref(),
                    name = &*self.key.name,
                    reason = self.outcome.as_str(),
                    duration = ?self.took,
                    err = %error,
                    "Reconcile lost a conflict"
                );
            }
            RunOutcome::Failed(error) => self.log_failure(&error.to_string()),
        }
    }
}

impl RunEnded<'_> {
    fn count(&self, runs: &ReconcileMetrics) {
        let of = controller_labels(self.controller);
        runs.active.get_or_create(&of).dec();
        runs.time.get_or_create(&of).observe(self.took.as_secs_f64());
        let result = self.outcome.result();
        if result == "error" {
            runs.errors.get_or_create(&of).inc();
        }
        if self.outcome.is_terminal() {
            runs.terminal_errors.get_or_create(&of).inc();
        }
        let controller = of.controller;
        let class = self.outcome.as_str();
        let by_class = RunClassLabels {
            controller: controller.clone(),
            class,
        };
        runs.outcomes.get_or_create(&by_class).inc();
        runs.total.get_or_create(&RunResultLabels { controller, result }).inc();
    }

    fn is_quiet(&self, error: &Error) -> bool {
        error.class() == ErrorClass::Conflict && self.in_a_row < CONFLICTS_WORTH_A_WARNING
    }

    fn log_success(&self) {
        debug!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            reason = join_reasons(self.reasons),
            verdict = self.outcome.as_str(),
            lane = self.lane.as_str(),
            duration = ?self.took,
            "Reconciled"
        );
    }

    fn log_failure(&self, err: &str) {
        warn!(
            controller = self.controller,
            namespace = self.key.namespace.as_deref(),
            name = &*self.key.name,
            reason = self.outcome.as_str(),
            failures = self.in_a_row,
            duration = ?self.took,
            err,
            "Failed to reconcile"
        );
    }
}

/// The first write of a run was answered this long after the event that triggered the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstWrite<'a> {
    /// The controller.
    pub(crate) controller: &'a str,
    /// The time since the event.
    pub(crate) after: Duration,
}

impl TelemetryEvent for FirstWrite<'_> {
    fn emit(self, families: &MetricFamilies) {
        families
            .runs
            .event_to_write
            .get_or_create(&controller_labels(self.controller))
            .observe(self.after.as_secs_f64());
    }
}

fn join_reasons(reasons: &[RunReason]) -> String {
    let words: Vec<String> = reasons.iter().map(RunReason::to_string).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    fn ended(outcome: RunOutcome<'_>) -> String {
        let telemetry = Telemetry::default();
        let key = ObjectKey::new(Some("default"), "a");
        let (reasons, lane) = ([RunReason::Changed], Lane::Edit);
        telemetry.emit(RunStarted {
            controller: "demo",
            key: &key,
            reasons: &reasons,
            lane,
            waited: Duration::ZERO,
        });
        telemetry.emit(RunEnded {
            controller: "demo",
            key: &key,
            reasons: &reasons,
            lane,
            outcome,
            in_a_row: 1,
            took: Duration::from_millis(30),
        });
        telemetry.text()
    }

    fn assert_line(text: &str, line: &str) {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }

    #[test]
    fn a_settled_run_is_a_success_under_controller_runtimes_names() {
        let text = ended(RunOutcome::Ended(&Action::Done));
        assert_line(
            &text,
            r#"controller_runtime_reconcile_total{controller="demo",result="success"} 1"#,
        );
        assert_line(&text, r#"controller_runtime_active_workers{controller="demo"} 0"#);
        assert_line(
            &text,
            r#"controller_runtime_reconcile_time_seconds_bucket{le="0.05",controller="demo"} 1"#,
        );
        assert_line(
            &text,
            r#"aplomb_reconcile_outcomes_total{controller="demo",class="Settled"} 1"#,
        );
    }

    #[test]
    fn a_conflict_is_a_requeue_and_no_error() {
        let text = ended(RunOutcome::Failed(&Error::new(ErrorClass::Conflict, "lost")));
        assert_line(
            &text,
            r#"controller_runtime_reconcile_total{controller="demo",result="requeue"} 1"#,
        );
        assert!(!text.contains("controller_runtime_reconcile_errors_total{"));
    }

    #[test]
    fn a_refused_spec_is_a_terminal_error() {
        let verdict = Action::reject("BadPort", "spec.port must be below 65536");
        let text = ended(RunOutcome::Ended(&verdict));
        assert_line(
            &text,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="demo"} 1"#,
        );
        assert_line(
            &text,
            r#"controller_runtime_reconcile_errors_total{controller="demo"} 1"#,
        );
    }
}
