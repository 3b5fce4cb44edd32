//! The work queue of one controller: its queue, the retry state of its keys and their open conflicts.
//!
//! Watch tasks add events, workers take keys. Every critical section is
//! short and synchronous; no lock is held across an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::admin;
use crate::admin::TriggerRecord;
use crate::clock::Clock;
use crate::controller::ControllerOptions;
use crate::controller::conflict::ConflictWaits;
use crate::controller::retry::{RetryState, RunResult, RunStats};
use crate::error::ErrorClass;
use crate::journal::{Journal, JournalEntry};
use crate::key::{ObjectKey, ObjectRef, ResourceVersion};
use crate::managed_fields::newest_foreign_manager;
use crate::queue::{Dispatch, FairQueue, Lane, NextRun, RunReason, RunTicket, WaitPolicy};
use crate::telemetry::{ConflictLost, Enqueued, KeyQuarantined, QuarantineEnded, Telemetry};

/// Queue, retry states and conflicts of one controller.
pub(crate) struct WorkQueue {
    pub(crate) options: ControllerOptions,
    log: QueueLog,
    started: Instant,
    state: Mutex<State>,
    wake: Notify,
}

/// The journal and metrics of a queue, and its names in them.
pub(crate) struct QueueLog {
    pub(crate) kind: Arc<str>,
    pub(crate) controller: Arc<str>,
    pub(crate) journal: Journal,
    pub(crate) clock: Clock,
    pub(crate) telemetry: Telemetry,
}

struct State {
    queue: FairQueue<ObjectKey>,
    retry_states: BTreeMap<ObjectKey, RetryState>,
    conflict_waits: ConflictWaits,
    running: BTreeMap<ObjectKey, Run>,
    triggers: VecDeque<TriggerRecord>,
}

/// A run in progress, for inspection.
struct Run {
    lane: Lane,
    reasons: Vec<RunReason>,
    began: Instant,
    wall: Timestamp,
    /// The object was deleted in the meantime: the outcome of the run is ignored.
    object_deleted: bool,
}

/// How many triggers are kept for inspection.
const MAX_TRIGGERS: usize = 32;

/// A key that may run now.
pub(crate) struct WorkItem {
    pub(crate) dispatch: Dispatch<ObjectKey>,
    /// The object whose cached state has lost a conflict and has not changed since.
    pub(crate) stale: Option<ObjectRef>,
}

impl WorkQueue {
    pub(crate) fn new(options: ControllerOptions, books: QueueLog) -> Self {
        let queue = FairQueue::new(options.queue);
        let contests = ConflictWaits::new(options.conflict);
        Self {
            options,
            log: books,
            started: Instant::now(),
            state: Mutex::new(State {
                queue,
                retry_states: BTreeMap::new(),
                conflict_waits: contests,
                running: BTreeMap::new(),
                triggers: VecDeque::new(),
            }),
            wake: Notify::new(),
        }
    }

    /// The object of `key` was edited. The edit may have fixed it, so it runs regardless of earlier
    /// failures.
    pub(crate) fn push_edit(&self, key: &ObjectKey, reason: RunReason) {
        self.state.lock().queue.reset_event_allowance(key);
        self.push(key, Lane::Edit, reason);
    }

    /// An input of `key` changed.
    pub(crate) fn push(&self, key: &ObjectKey, lane: Lane, reason: RunReason) {
        let (now, wall) = (self.now(), self.log.clock.now());
        let mut state = self.state.lock();
        let first = state.queue.push(key, lane, reason, now);
        state.triggers.truncate(MAX_TRIGGERS - 1);
        state.triggers.push_front(TriggerRecord {
            key: key.to_string(),
            reason: reason.to_string(),
            lane: lane.as_str().into(),
            at: wall,
        });
        drop(state);
        if first {
            self.log.telemetry.emit(Enqueued {
                controller: &self.log.controller,
            });
            self.record(key, JournalEntry::Triggered { reason, lane });
        }
        self.wake.notify_one();
    }

    /// The object was deleted: drops all state of its key.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        {
            let now = self.now();
            let mut state = self.state.lock();
            state.queue.remove(key);
            state.conflict_waits.remove(key);
            self.drop_retry_state(&mut state, key, now);
            if let Some(run) = state.running.get_mut(key) {
                run.object_deleted = true;
            }
        }
        self.wake.notify_one();
    }

    /// Whether any key waits after a conflict. Called for every event, so it must be cheap.
    pub(crate) fn has_conflicts(&self) -> bool {
        !self.state.lock().conflict_waits.is_empty()
    }

    /// A cache shows `object` at `version`: ends the waits of keys that lost on it, and returns them.
    pub(crate) fn observed_version(&self, object: &ObjectRef, version: &ResourceVersion) -> Vec<ObjectKey> {
        let now = self.now();
        let settled = self.state.lock().conflict_waits.observed_version(object, version, now);
        self.wake.notify_one();
        settled
    }

    /// The next key that can run now.
    pub(crate) fn pop_key(&self) -> Option<WorkItem> {
        let now = self.now();
        let mut state = self.state.lock();
        state.release_conflict_waits(now);
        let dispatch = state.queue.pop(now)?;
        let contest = state.conflict_waits.remove(&dispatch.key);
        let stale = contest
            .filter(|contest| !contest.has_newer_version())
            .and_then(|contest| contest.object);
        let run = Run {
            lane: dispatch.lane,
            reasons: dispatch.reasons.iter().collect(),
            began: Instant::now(),
            wall: self.log.clock.now(),
            object_deleted: false,
        };
        state.running.insert(dispatch.key.clone(), run);
        Some(WorkItem { dispatch, stale })
    }

    /// A run ended.
    pub(crate) fn complete(&self, work: &WorkItem, outcome: &RunResult, facts: RunStats) {
        let key = &work.dispatch.key;
        let mut state = self.state.lock();
        let run = state.running.remove(key);
        let ticket = work.dispatch.ticket;
        if run.is_none_or(|run| run.object_deleted) || matches!(outcome, RunResult::Gone) {
            state.queue.complete(ticket, NextRun::Idle, facts.now);
            self.drop_retry_state(&mut state, key, facts.now);
            return;
        }
        let history = state.retry_state(key, &self.options);
        let inside = history.is_quarantined(facts.now);
        let sequel = history.after_run(outcome, facts, &self.options);
        let (still, faults) = (
            history.is_quarantined(facts.now),
            history.consecutive_failures(ErrorClass::Fault),
        );
        if history.is_clear() {
            state.retry_states.remove(key);
        }
        state.queue.complete(ticket, sequel.next, facts.now);
        if let Some(contest) = sequel.conflict_wait {
            state.conflict_waits.insert(key.clone(), contest);
        }
        drop(state);
        let controller = &*self.log.controller;
        match (inside, still) {
            (false, true) => self.log.telemetry.emit(KeyQuarantined {
                controller,
                key,
                faults,
            }),
            (true, false) => self.log.telemetry.emit(QuarantineEnded { controller, key }),
            _ => {}
        }
    }

    /// A run ended with an uncaught panic: the key runs again later.
    pub(crate) fn fail_panicked(&self, ticket: RunTicket, key: &ObjectKey) {
        let now = self.now();
        let mut state = self.state.lock();
        state.running.remove(key);
        let next = NextRun::Scheduled {
            due: now + self.options.bound(),
            lane: Lane::Retry,
            reason: RunReason::Retry(ErrorClass::Fault),
            hold: WaitPolicy::AnyEvent,
        };
        state.queue.complete(ticket, next, now);
    }

    fn drop_retry_state(&self, state: &mut State, key: &ObjectKey, now: Duration) {
        let history = state.retry_states.remove(key);
        if history.is_some_and(|history| history.is_quarantined(now)) {
            let controller = &*self.log.controller;
            self.log.telemetry.emit(QuarantineEnded { controller, key });
        }
    }

    /// Waits until there may be a key to take.
    pub(crate) async fn wait_for_work(&self) {
        let due = {
            let state = self.state.lock();
            let moments = [state.conflict_waits.next_end(), state.queue.next_due(self.now())];
            moments.into_iter().flatten().min()
        };
        match due {
            Some(due) => {
                tokio::select! { biased;
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep(due.saturating_sub(self.now())) => {}
                }
            }
            None => self.wake.notified().await,
        }
    }

    /// Time since the engine's start, as the queue counts it.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether one more failure quarantines `key`.
    pub(crate) fn should_quarantine(&self, key: &ObjectKey, class: ErrorClass) -> bool {
        let mut state = self.state.lock();
        let history = state.retry_state(key, &self.options);
        history.should_quarantine(class, &self.options)
    }

    /// How many times in a row `key` has failed with `class`.
    pub(crate) fn consecutive_failures(&self, key: &ObjectKey, class: ErrorClass) -> u32 {
        let state = self.state.lock();
        let history = state.retry_states.get(key);
        history.map_or(0, |history| history.consecutive_failures(class))
    }

    /// Reads the queue, for metrics and the state page.
    pub(crate) fn with_queue<T>(&self, look: impl FnOnce(&FairQueue<ObjectKey>, Duration) -> T) -> T {
        let now = self.now();
        look(&self.state.lock().queue, now)
    }

    /// The runs in progress.
    pub(crate) fn running(&self) -> Vec<admin::RunState> {
        let bound = self.options.bound().as_secs_f64();
        let state = self.state.lock();
        let show = |(key, run): (&ObjectKey, &Run)| admin::RunState {
            key: key.to_string(),
            lane: run.lane.as_str().into(),
            reasons: run.reasons.iter().map(RunReason::to_string).collect(),
            started: run.wall,
            running: run.began.elapsed().as_secs_f64(),
            bound,
        };
        state.running.iter().map(show).collect()
    }

    /// The keys in quarantine.
    pub(crate) fn quarantined(&self) -> Vec<String> {
        let (now, state) = (self.now(), self.state.lock());
        let inside = state
            .retry_states
            .iter()
            .filter(|(_, history)| history.is_quarantined(now));
        inside.map(|(key, _)| key.to_string()).collect()
    }

    /// The last triggers, newest first.
    pub(crate) fn triggers(&self) -> Vec<TriggerRecord> {
        self.state.lock().triggers.iter().cloned().collect()
    }

    /// Counts a conflict that has ended, with its winner as far as the `newest` state shows it.
    pub(crate) fn record_conflict(
        &self,
        key: &ObjectKey,
        object: &ObjectRef,
        newest: &Value,
        (telemetry, manager): (&Telemetry, &'static str),
    ) {
        let winner = newest_foreign_manager(newest, manager);
        telemetry.emit(ConflictLost {
            object,
            manager,
            winner: winner.as_deref(),
        });
        let object = object.clone();
        self.record(key, JournalEntry::Conflict { object, winner });
    }

    /// Adds a line to the journal of `key`.
    pub(crate) fn record(&self, key: &ObjectKey, entry: JournalEntry) {
        self.log.journal.record(&self.object_ref(key), entry);
    }

    /// The object of `key`.
    pub(crate) fn object_ref(&self, key: &ObjectKey) -> ObjectRef {
        ObjectRef {
            kind: self.log.kind.clone(),
            key: key.clone(),
        }
    }
}

impl State {
    fn retry_state(&mut self, key: &ObjectKey, options: &ControllerOptions) -> &mut RetryState {
        self.retry_states
            .entry(key.clone())
            .or_insert_with(|| RetryState::new(key, options.backoff.clone()))
    }

    fn release_conflict_waits(&mut self, now: Duration) {
        for key in self.conflict_waits.take_expired(now) {
            let reason = RunReason::Retry(ErrorClass::Conflict);
            self.queue.release(&key, Lane::Input, reason, now);
        }
    }
}
