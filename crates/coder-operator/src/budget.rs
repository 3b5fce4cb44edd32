//! What may be spent at a server by one identity, shared by all objects.
//!
//! This module does not wait. [`Account::turn`] returns whether a call may go now, and else when to
//! ask again; the place in the queue is kept in between. The decisions are in the ledger, which is
//! pure; the account is the ledger with a lock. Nothing here sends a request.

mod hint;
mod ledger;
mod window;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aplomb::ObjectRef;
use aplomb::ratelimit::{InspectLimiter, LimiterLaneSnapshot, LimiterSnapshot};
use http::HeaderMap;
use jiff::Timestamp;
use tokio::time::Instant;

use hint::Hint;
use ledger::{Ledger, PathLevel, Step};

pub(crate) use ledger::CallPriority;

/// Words of paths. Anything else in a path is a name or an id, and is not shown.
const KNOWN_SEGMENTS: [&str; 10] = [
    "api",
    "v2",
    "organizations",
    "provisionerkeys",
    "daemons",
    "entitlements",
    "workspaceproxies",
    "users",
    "me",
    "buildinfo",
];

type Tell = Arc<dyn Fn(&ObjectRef) + Send + Sync>;

/// What one identity may spend at one server. Clones share it.
#[derive(Clone)]
pub(crate) struct Account(Arc<Inner>);

struct Inner {
    name: String,
    notify: Tell,
    ledger: Mutex<Ledger<ObjectRef>>,
}

/// Whether a call may go.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It may, with this.
    Now(Permit),
    /// Not yet. The place in the queue is kept.
    Later {
        /// When it is expected to be its turn.
        until: Instant,
        /// Whether the server has refused a call of this path, and it is closed for that.
        limited: bool,
    },
}

impl Account {
    /// An account that people know as `name`. `tell` is called with objects whose turn comes earlier than
    /// they were told; it must not call back.
    pub(crate) fn new(name: &str, tell: Tell) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            notify: tell,
            ledger: Mutex::default(),
        }))
    }

    /// Asks for the turn of `who` to call `path`.
    pub(crate) fn turn(&self, who: &ObjectRef, lane: CallPriority, path: &str, now: Instant) -> Turn {
        let step = self.update(|ledger| ledger.turn(who, lane, path, now));
        match step {
            Step::Now => Turn::Now(Permit {
                account: self.clone(),
                path: Some(path.to_owned()),
            }),
            Step::Later { until, limited } => Turn::Later { until, limited },
        }
    }

    /// Gives up every place of an object.
    pub(crate) fn remove(&self, who: &ObjectRef) {
        self.update(|ledger| ((), ledger.remove(who, Instant::now())));
    }

    /// How it stands, for people: by endpoint, without the names and ids in paths. An endpoint's tokens
    /// are those of its tightest path.
    pub(crate) fn snapshot(&self, now: Instant) -> LimiterSnapshot {
        let ledger = self.lock();
        let mut endpoints: BTreeMap<String, LimiterLaneSnapshot> = BTreeMap::new();
        let (mut closed, mut limit) = (None, 0);
        for (path, level) in ledger.levels(now) {
            closed = closed.max(level.closed_until);
            limit = limit.max(level.limit.unwrap_or(0));
            let name = path_template(path);
            let shown = endpoints.entry(name.clone()).or_insert(LimiterLaneSnapshot {
                name,
                tokens: f64::MAX,
                reserve: 0.0,
                waiting: 0,
                in_flight: 0,
            });
            add_level(shown, &level);
        }
        LimiterSnapshot {
            target: self.0.name.clone(),
            rate: f64::from(limit) / window::WINDOW.as_secs_f64(),
            capacity: f64::from(limit),
            closed_for_seconds: closed.map(|until| (until - now).as_secs_f64()),
            lanes: endpoints.into_values().collect(),
        }
    }

    /// Changes the ledger, and tells those it concerns once the lock is free.
    fn update<T>(&self, change: impl FnOnce(&mut Ledger<ObjectRef>) -> (T, Vec<ObjectRef>)) -> T {
        let (value, ready) = change(&mut self.lock());
        ready.iter().for_each(|who| (self.0.notify)(who));
        value
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ledger<ObjectRef>> {
        let ledger = self.0.ledger.lock();
        ledger.unwrap_or_else(PoisonError::into_inner)
    }
}

impl InspectLimiter for Account {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn snapshot(&self) -> LimiterSnapshot {
        Self::snapshot(self, Instant::now())
    }
}

fn add_level(shown: &mut LimiterLaneSnapshot, level: &PathLevel) {
    shown.tokens = shown.tokens.min(level.room as f64);
    shown.waiting += level.waiting;
    shown.in_flight += usize::try_from(level.in_flight).unwrap_or(usize::MAX);
}

/// The path without names and IDs.
fn path_template(path: &str) -> String {
    let word = |part: &str| part.is_empty() || KNOWN_SEGMENTS.contains(&part);
    let parts = path.split('/');
    let shown: Vec<_> = parts.map(|part| if word(part) { part } else { "*" }).collect();
    shown.join("/")
}

/// The right to make one call. Dropped without a word, the call was never sent, and its turn is free again.
#[must_use = "a permit is returned when it is dropped"]
pub(crate) struct Permit {
    account: Account,
    path: Option<String>,
}

impl Permit {
    /// The answer came at `now` to a call sent at `sent`. `wall` is our clock's time, which counts only
    /// where the answer has no date of its own.
    pub(crate) fn record_answer(
        mut self,
        status: u16,
        headers: &HeaderMap,
        sent: Instant,
        now: Instant,
        wall: Timestamp,
    ) {
        let hint = Hint::from_response(status, headers, wall);
        if let Some(path) = self.path.take() {
            let account = &self.account;
            account.update(|ledger| ((), ledger.record_answer(&path, &hint, sent, now)));
        }
    }

    /// The call was sent and no answer will come. It counts as spent.
    pub(crate) fn record_no_answer(mut self) {
        if let Some(path) = self.path.take() {
            let account = &self.account;
            account.update(|ledger| ((), ledger.record_no_answer(&path, Instant::now())));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let account = &self.account;
            account.update(|ledger| ((), ledger.release_call(&path, Instant::now())));
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.0.name).finish()
    }
}

#[cfg(test)]
mod tests;
