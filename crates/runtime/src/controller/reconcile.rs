//! One run of one key: the reconcile with its deadline, then one status write.
//!
//! Every outcome of the reconcile, including a panic, becomes the outcome of this key alone.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::Resource;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument;

use crate::action::Action;
use crate::cache::Cache;
use crate::call_context::CallContext;
use crate::context::{Context, ContextParts};
use crate::controller::caches::ControllerCaches;
use crate::controller::retry::{RunResult, RunStats};
use crate::controller::workqueue::{WorkItem, WorkQueue};
use crate::controller::{Kind, ReconcileFn};
use crate::engine::WorkerParams;
use crate::error::{Error, ErrorClass, Result};
use crate::events::{EventNote, EventRecorder};
use crate::journal::{Journal, JournalEntry};
use crate::key::{ObjectKey, ObjectRef, ResourceVersion};
use crate::leadership::LeaderElector;
use crate::leadership::fence::Fence;
use crate::queue::{RunReason, RunTicket};
use crate::ratelimit::api;
use crate::tasks::{TaskHandle, Tasks};
use crate::telemetry::{RunOutcome, Telemetry};
use crate::view::View;
use crate::writer::{PassOwner, Writer};
use crate::{conditions, telemetry};

/// Shared by all runs of one controller.
pub(crate) struct Reconciler<K: Kind> {
    pub(crate) name: &'static str,
    /// The name in metrics.
    pub(crate) label: Arc<str>,
    pub(crate) reconcile: ReconcileFn<K>,
    pub(crate) queue: Arc<WorkQueue>,
    pub(crate) primary: Cache<K>,
    pub(crate) caches: ControllerCaches,
    pub(crate) writer: Writer,
    pub(crate) client: kube::Client,
    pub(crate) fence: Fence,
    pub(crate) lease: Option<LeaderElector>,
    /// Whether it also runs without the lease.
    pub(crate) without_leader_election: bool,
    /// Whether it writes no status.
    pub(crate) without_status: bool,
    /// The finalizers that this controller removes.
    pub(crate) finalizers: Vec<&'static str>,
    pub(crate) recorder: EventRecorder,
    pub(crate) journal: Journal,
    pub(crate) telemetry: Telemetry,
}

impl<K: Kind> Reconciler<K> {
    /// Runs one key and reports the outcome to the queue.
    pub(crate) async fn run(self: Arc<Self>, work: WorkItem) {
        let began = Instant::now();
        let options = &self.queue.options;
        let deadline = deadline_after(began, options.deadline);
        let scope = CallContext {
            deadline: deadline_after(began, options.bound()),
            lane: api::WORK,
        };
        let reasons: Vec<_> = work.dispatch.reasons.iter().collect();
        self.telemetry.emit(telemetry::Dequeued {
            controller: &self.label,
            waited: work.dispatch.waited,
        });
        self.telemetry.emit(telemetry::RunStarted {
            controller: self.name,
            key: &work.dispatch.key,
            reasons: &reasons,
            lane: work.dispatch.lane,
            waited: work.dispatch.waited,
        });
        let span = tracing::info_span!(
            "reconcile",
            controller = self.name,
            object = %work.dispatch.key,
            reasons = %work.dispatch.reasons,
            lane = work.dispatch.lane.as_str(),
        );
        let pass = self.pass(&work, deadline).instrument(span);
        let (outcome, wrote) = scope.run(pass).await;
        let facts = RunStats {
            cause: work.dispatch.by,
            took: began.elapsed(),
            has_written: wrote.is_some(),
            closed_for: closed_for(&outcome),
            now: self.queue.now(),
        };
        self.telemetry.emit(telemetry::KeyDone {
            controller: &self.label,
            ran: facts.took,
            retries: matches!(outcome, RunResult::Failed(_)),
        });
        if let Some(at) = wrote {
            self.telemetry.emit(telemetry::FirstWrite {
                controller: self.name,
                after: work.dispatch.waited + (at - began),
            });
        }
        self.queue.complete(&work, &outcome, facts);
        self.emit_run_ended(&work, &reasons, &outcome, facts.took);
        self.check_conflict_winner(&outcome);
    }

    /// The pass itself, and when its first write was accepted.
    async fn pass(&self, work: &WorkItem, deadline: Instant) -> (RunResult, Option<Instant>) {
        let key = &work.dispatch.key;
        if let Some(stale) = &work.stale {
            // The cached state is known to have lost: one read instead of another conflict.
            let refreshed = self.caches.refresh(&self.client, stale).await;
            self.record_conflict(key, stale);
            if let Err(error) = refreshed {
                return (RunResult::Failed(error), None);
            }
        }
        let object = self.primary.get(key);
        let Some(object) = object.filter(|object| !self.is_released(&**object)) else {
            return (RunResult::Gone, None);
        };
        let cx = match self.context(&object, work, deadline) {
            Ok(cx) => cx,
            Err(error) => return (RunResult::Failed(error), None),
        };
        let result = self.reconcile(&object, &cx, key, deadline).await;
        let closed = self.write_status(&cx, key, &result).await;
        let outcome = match (closed, result) {
            (Err(error), Ok(_)) => RunResult::Failed(error),
            // It failed because its object is being deleted; there is nothing to retry.
            (_, Err(_)) if cx.pass().is_owner_deleted() => RunResult::Gone,
            (_, result) => result.map_or_else(RunResult::Failed, RunResult::Ended),
        };
        let outcome = match outcome {
            RunResult::Failed(error) if error.object().is_none() => {
                // A conflict without an object was most likely on the reconciled object itself.
                let version = View::meta(&*object).version();
                RunResult::Failed(error.with_object(self.queue.object_ref(key), Some(version)))
            }
            outcome => outcome,
        };
        (outcome, cx.pass().first_write_at())
    }

    /// Whether `object` is being deleted and has no finalizer of this controller. Its children are deleted
    /// with it: recreating one would delay the deletion.
    fn is_released(&self, object: &K) -> bool {
        Resource::meta(object).deletion_timestamp.is_some()
            && self.owner(object).is_ok_and(|owner| owner.is_released_by(self.name))
    }

    fn owner(&self, object: &K) -> Result<PassOwner> {
        let owner = PassOwner::new(object, Some(Arc::new(self.primary.clone())))?;
        Ok(owner
            .with_finalizers(&self.finalizers)
            .without_status(self.without_status))
    }

    fn context(&self, object: &Arc<K>, work: &WorkItem, deadline: Instant) -> Result<Context<K>> {
        let owner = self.owner(object)?;
        Ok(Context::new(ContextParts {
            object: object.clone(),
            caches: self.caches.clone(),
            pass: self.writer.pass(owner, self.journal.clone()),
            client: self.client.clone(),
            fence: self.fence.clone(),
            term: self.lease.as_ref().map_or(0, LeaderElector::term),
            recorder: self.recorder.clone(),
            reasons: work.dispatch.reasons.iter().collect(),
            deadline,
        }))
    }

    async fn reconcile(&self, object: &Arc<K>, cx: &Context<K>, key: &ObjectKey, deadline: Instant) -> Result<Action> {
        self.queue.record(key, JournalEntry::Started);
        let reconcile = &self.reconcile;
        // Called inside the caught future: a reconcile may panic before it returns one.
        let run = async { reconcile(object.clone(), cx.clone()).await };
        match timeout_at(deadline, AssertUnwindSafe(run).catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => {
                let message = panic_message(&*panic);
                self.telemetry.emit(telemetry::Panicked {
                    controller: self.name,
                    key,
                    message: &message,
                });
                Err(Error::new(
                    ErrorClass::Fault,
                    format!("the reconcile panicked: {message}"),
                ))
            }
            Err(_) => {
                let after = self.queue.options.deadline;
                self.telemetry.emit(telemetry::DeadlinePassed {
                    controller: self.name,
                    key,
                    after,
                });
                Err(Error::new(
                    ErrorClass::Fault,
                    format!("the reconcile exceeded its deadline of {after:?}"),
                ))
            }
        }
    }

    /// The one status write of the pass.
    async fn write_status(&self, cx: &Context<K>, key: &ObjectKey, result: &Result<Action>) -> Result<()> {
        if let Err(error) = result {
            self.publish_warning(cx, error);
        }
        if self.without_status {
            return Ok(());
        }
        let outcome = match result {
            Ok(verdict) => conditions::PassOutcome::Action(verdict),
            Err(error) if self.queue.should_quarantine(key, error.class()) => {
                conditions::PassOutcome::Quarantined(error)
            }
            Err(error) => conditions::PassOutcome::Failed(error),
        };
        let deadline = CallContext::current().map_or(cx.deadline(), |scope| scope.deadline);
        let lane = api::STATUS;
        let flush = cx.pass().flush(outcome);
        CallContext { deadline, lane }.run(flush).await
    }
}

impl<K: Kind> Reconciler<K> {
    /// Only a person can resolve a name that is taken: publishes one Event, in addition to the condition.
    fn publish_warning(&self, cx: &Context<K>, error: &Error) {
        let message = error.to_string();
        if error.class() == ErrorClass::Exists && !cx.pass().status_contains(&message) {
            let reason = error.class().as_str();
            cx.publish_event(EventNote::warning(reason, "Apply", message));
        }
    }

    /// The winner of a conflict may have reached the cache before the conflict was reported.
    fn check_conflict_winner(&self, outcome: &RunResult) {
        let RunResult::Failed(error) = outcome else {
            return;
        };
        let Some((object, _)) = error.object().filter(|_| error.class() == ErrorClass::Conflict) else {
            return;
        };
        let newest = self.caches.newest(object).unwrap_or_default();
        let Some(version) = newest["metadata"]["resourceVersion"].as_str() else {
            return;
        };
        for key in self.queue.observed_version(object, &ResourceVersion::parse(version)) {
            self.record_conflict(&key, object);
        }
    }

    fn record_conflict(&self, key: &ObjectKey, object: &ObjectRef) {
        let newest = self.caches.newest(object).unwrap_or_default();
        self.queue
            .record_conflict(key, object, &newest, (&self.telemetry, self.name));
    }

    fn emit_run_ended(&self, work: &WorkItem, reasons: &[RunReason], outcome: &RunResult, took: Duration) {
        let key = &work.dispatch.key;
        let (said, in_a_row) = match outcome {
            RunResult::Gone => (RunOutcome::Gone, 0),
            RunResult::Ended(verdict) => {
                self.queue.record(key, JournalEntry::Ended(verdict.as_str()));
                (RunOutcome::Ended(verdict), 0)
            }
            RunResult::Failed(error) => {
                let class = error.class();
                let message = error.to_string();
                self.queue.record(key, JournalEntry::Pushback { class, message });
                (RunOutcome::Failed(error), self.queue.consecutive_failures(key, class))
            }
        };
        self.telemetry.emit(telemetry::RunEnded {
            controller: self.name,
            key,
            reasons,
            lane: work.dispatch.lane,
            outcome: said,
            in_a_row,
            took,
        });
    }
}

/// Saturates: a far future instead of an overflow.
fn deadline_after(began: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365);
    began + time.min(FAR)
}

/// How long the rate limiter that rejected a call stays closed.
fn closed_for(outcome: &RunResult) -> Option<Duration> {
    let RunResult::Failed(error) = outcome else {
        return None;
    };
    let until = error.until()?;
    Some(until.saturating_duration_since(Instant::now()))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

/// The limit of concurrent runs, including slow ones, as a multiple of the number of workers.
const MAX_WORKER_FACTOR: usize = 4;

/// Runs a controller's keys until shutdown, then waits for runs in flight, but no longer
/// than the drain time.
pub(crate) async fn run_workers<K: Kind>(crew: Arc<Reconciler<K>>, mut terms: WorkerParams) {
    let workers = crew.queue.options.workers;
    let mut quick = FuturesUnordered::new();
    let mut slow = FuturesUnordered::new();
    loop {
        let leading = *terms.leading.borrow_and_update();
        let full = |quick: usize, slow: usize| quick >= workers || quick + slow >= workers * MAX_WORKER_FACTOR;
        while leading && !full(quick.len(), slow.len()) {
            let Some(work) = crew.queue.pop_key() else {
                break;
            };
            quick.push(ActiveRun::start(&crew, work, &terms.tasks).wait_briefly());
        }
        let free = leading && !full(quick.len(), slow.len());
        tokio::select! { biased;
            () = terms.stop.cancelled() => break,
            Some(run) = quick.next() => slow.extend(run.map(ActiveRun::wait)),
            Some(()) = slow.next() => {}
            Ok(()) = terms.leading.changed() => {}
            () = crew.queue.wait_for_work(), if free => {}
        }
    }
    // Runs in flight may finish, so that no write is cut short. Hanging runs are not waited for.
    let drain = async {
        while let Some(run) = quick.next().await {
            slow.extend(run.map(ActiveRun::wait));
        }
        while slow.next().await.is_some() {}
    };
    if timeout(terms.drain, drain).await.is_err() {
        tracing::warn!(
            controller = crew.name,
            "Shutdown deadline passed with reconciles still running"
        );
    }
}

/// A run in progress.
struct ActiveRun<K: Kind> {
    reconciler: Arc<Reconciler<K>>,
    ticket: RunTicket,
    key: ObjectKey,
    task: TaskHandle<()>,
}

impl<K: Kind> ActiveRun<K> {
    fn start(crew: &Arc<Reconciler<K>>, work: WorkItem, tasks: &Tasks) -> Self {
        Self {
            reconciler: crew.clone(),
            ticket: work.dispatch.ticket,
            key: work.dispatch.key.clone(),
            task: tasks.spawn(crew.clone().run(work)),
        }
    }

    /// Waits for it to end, and returns it if that takes long.
    async fn wait_briefly(mut self) -> Option<Self> {
        let Some(limit) = self.reconciler.queue.options.lend_after else {
            self.wait().await;
            return None;
        };
        match timeout(limit, self.task.wait()).await {
            Ok(ended) => {
                self.handle_end(ended);
                None
            }
            Err(_) => Some(self),
        }
    }

    async fn wait(mut self) {
        let ended = self.task.wait().await;
        self.handle_end(ended);
    }

    fn handle_end(&self, ended: Option<()>) {
        if ended.is_none() {
            // A panic outside of the reconcile, which has not been reported to the queue.
            self.reconciler.queue.fail_panicked(self.ticket, &self.key);
        }
    }
}
