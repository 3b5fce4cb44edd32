//! The work queue of one controller: its queue, the retry state of its keys and their open conflicts.
//!
//! Watch tasks add events, workers take keys. Every critical section is
//! short and synchronous; no lock is held across an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::contests::ConflictWaits;
use super::history::{RetryState, RunResult, RunStats};
use super::options::ControllerOptions;
use crate::admin::{self, TriggerRecord};
use crate::clock::Clock;
use crate::error::ErrorClass;
use crate::journal::{Journal, JournalEntry};
use crate::key::{ObjectKey, ObjectRef};
use crate::queue::{Dispatch, FairQueue, Lane, NextRun, RunReason, RunTicket, WaitPolicy};
use crate::telemetry::{Enqueued, KeyQuarantined, QuarantineEnded, Telemetry};
use crate::version::ResourceVersion;

/// Queue, retry states and conflicts of one controller.
pub(crate) struct WorkQueue {
    pub(crate) options: ControllerOptions,
    books: QueueLog,
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
    histories: BTreeMap<ObjectKey, RetryState>,
    contests: ConflictWaits,
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
    forgotten: bool,
}

/// How many triggers are kept for inspection.
const TRIGGERS: usize = 32;

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
            books,
            started: Instant::now(),
            state: Mutex::new(State {
                queue,
                histories: BTreeMap::new(),
                contests,
                running: BTreeMap::new(),
                triggers: VecDeque::new(),
            }),
            wake: Notify::new(),
        }
    }

    /// The object of `key` was edited. The edit may have fixed it, so it runs regardless of earlier
    /// failures.
    pub(crate) fn edited(&self, key: &ObjectKey, reason: RunReason) {
        self.lock().queue.renew(key);
        self.push(key, Lane::Edit, reason);
    }

    /// An input of `key` changed.
    pub(crate) fn push(&self, key: &ObjectKey, lane: Lane, reason: RunReason) {
        let (now, wall) = (self.now(), self.books.clock.now());
        let mut state = self.lock();
        let first = state.queue.push(key, lane, reason, now);
        state.triggers.truncate(TRIGGERS - 1);
        state.triggers.push_front(TriggerRecord {
            key: key.to_string(),
            reason: reason.to_string(),
            lane: lane.word().into(),
            at: wall,
        });
        drop(state);
        if first {
            self.books.telemetry.emit(Enqueued {
                controller: &self.books.controller,
            });
            self.note(key, JournalEntry::Triggered { reason, lane });
        }
        self.wake.notify_one();
    }

    /// The object was deleted: drops all state of its key.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        {
            let now = self.now();
            let mut state = self.lock();
            state.queue.forget(key);
            state.contests.remove(key);
            self.drop_history(&mut state, key, now);
            if let Some(run) = state.running.get_mut(key) {
                run.forgotten = true;
            }
        }
        self.wake.notify_one();
    }

    /// Whether any key waits after a conflict. Called for every event, so it must be cheap.
    pub(crate) fn contested(&self) -> bool {
        !self.lock().contests.is_empty()
    }

    /// A cache shows `object` at `version`: ends the waits of keys that lost on it, and returns them.
    pub(crate) fn saw(&self, object: &ObjectRef, version: &ResourceVersion) -> Vec<ObjectKey> {
        let now = self.now();
        let settled = self.lock().contests.saw(object, version, now);
        self.wake.notify_one();
        settled
    }

    /// The next key that can run now.
    pub(crate) fn take(&self) -> Option<WorkItem> {
        let now = self.now();
        let mut state = self.lock();
        state.release_contests(now);
        let dispatch = state.queue.pop(now)?;
        let contest = state.contests.remove(&dispatch.key);
        let stale = contest
            .filter(|contest| !contest.passed())
            .and_then(|contest| contest.object);
        let run = Run {
            lane: dispatch.lane,
            reasons: dispatch.reasons.iter().collect(),
            began: Instant::now(),
            wall: self.books.clock.now(),
            forgotten: false,
        };
        state.running.insert(dispatch.key.clone(), run);
        Some(WorkItem { dispatch, stale })
    }

    /// A run ended.
    pub(crate) fn finish(&self, work: &WorkItem, outcome: &RunResult, facts: RunStats) {
        let key = &work.dispatch.key;
        let mut state = self.lock();
        let run = state.running.remove(key);
        let ticket = work.dispatch.ticket;
        if run.is_none_or(|run| run.forgotten) || matches!(outcome, RunResult::Gone) {
            state.queue.finish(ticket, NextRun::Idle, facts.now);
            self.drop_history(&mut state, key, facts.now);
            return;
        }
        let history = state.history(key, &self.options);
        let inside = history.quarantined(facts.now);
        let sequel = history.follow(outcome, facts, &self.options);
        let (still, faults) = (
            history.quarantined(facts.now),
            history.in_a_row(ErrorClass::Fault),
        );
        if history.is_clear() {
            state.histories.remove(key);
        }
        state.queue.finish(ticket, sequel.next, facts.now);
        if let Some(contest) = sequel.contest {
            state.contests.insert(key.clone(), contest);
        }
        drop(state);
        let controller = &*self.books.controller;
        match (inside, still) {
            (false, true) => self.books.telemetry.emit(KeyQuarantined {
                controller,
                key,
                faults,
            }),
            (true, false) => self
                .books
                .telemetry
                .emit(QuarantineEnded { controller, key }),
            _ => {}
        }
    }

    /// A run ended with an uncaught panic: the key runs again later.
    pub(crate) fn abandon(&self, ticket: RunTicket, key: &ObjectKey) {
        let now = self.now();
        let mut state = self.lock();
        state.running.remove(key);
        let next = NextRun::At {
            due: now + self.options.bound(),
            lane: Lane::Retry,
            reason: RunReason::Retry(ErrorClass::Fault),
            hold: WaitPolicy::Open,
        };
        state.queue.finish(ticket, next, now);
    }

    fn drop_history(&self, state: &mut State, key: &ObjectKey, now: Duration) {
        let history = state.histories.remove(key);
        if history.is_some_and(|history| history.quarantined(now)) {
            let controller = &*self.books.controller;
            self.books
                .telemetry
                .emit(QuarantineEnded { controller, key });
        }
    }

    /// Waits until there may be a key to take.
    pub(crate) async fn changed(&self) {
        let due = {
            let state = self.lock();
            let moments = [state.contests.next(), state.queue.next_due(self.now())];
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
    pub(crate) fn quarantines(&self, key: &ObjectKey, class: ErrorClass) -> bool {
        let mut state = self.lock();
        let history = state.history(key, &self.options);
        history.quarantines(class, &self.options)
    }

    /// How many times in a row `key` has failed with `class`.
    pub(crate) fn in_a_row(&self, key: &ObjectKey, class: ErrorClass) -> u32 {
        let state = self.lock();
        let history = state.histories.get(key);
        history.map_or(0, |history| history.in_a_row(class))
    }

    /// Reads the queue, for metrics and the state page.
    pub(crate) fn queue<T>(&self, look: impl FnOnce(&FairQueue<ObjectKey>, Duration) -> T) -> T {
        let now = self.now();
        look(&self.lock().queue, now)
    }

    /// The runs in progress.
    pub(crate) fn running(&self) -> Vec<admin::RunState> {
        let bound = self.options.bound().as_secs_f64();
        let state = self.lock();
        let show = |(key, run): (&ObjectKey, &Run)| admin::RunState {
            key: key.to_string(),
            lane: run.lane.word().into(),
            reasons: run.reasons.iter().map(RunReason::to_string).collect(),
            started: run.wall,
            running: run.began.elapsed().as_secs_f64(),
            bound,
        };
        state.running.iter().map(show).collect()
    }

    /// The keys in quarantine.
    pub(crate) fn quarantined(&self) -> Vec<String> {
        let (now, state) = (self.now(), self.lock());
        let inside = state
            .histories
            .iter()
            .filter(|(_, history)| history.quarantined(now));
        inside.map(|(key, _)| key.to_string()).collect()
    }

    /// The last triggers, newest first.
    pub(crate) fn triggers(&self) -> Vec<TriggerRecord> {
        self.lock().triggers.iter().cloned().collect()
    }

    /// Adds a line to the journal of `key`.
    pub(crate) fn note(&self, key: &ObjectKey, entry: JournalEntry) {
        self.books.journal.record(&self.object(key), entry);
    }

    /// The object of `key`.
    pub(crate) fn object(&self, key: &ObjectKey) -> ObjectRef {
        ObjectRef {
            kind: self.books.kind.clone(),
            key: key.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn history(&mut self, key: &ObjectKey, options: &ControllerOptions) -> &mut RetryState {
        self.histories
            .entry(key.clone())
            .or_insert_with(|| RetryState::new(key, options.curves.clone()))
    }

    fn release_contests(&mut self, now: Duration) {
        for key in self.contests.end(now) {
            let reason = RunReason::Retry(ErrorClass::Conflict);
            self.queue.release(&key, Lane::Input, reason, now);
        }
    }
}
