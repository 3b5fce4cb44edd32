//! The ledger with a clock and with waiters: what the rest of the runtime holds in its hands.
//!
//! Nothing here runs by itself. Whoever waits drives the ledger: the first of each lane sleeps until
//! a token can be there, the others until they are told. The lock is never held across an await.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::config::Config;
use super::ledger::{Ledger, Ticket};
use super::{Lane, lesson};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::telemetry::{BudgetClosed, BudgetRefused, BudgetWaited, NonsenseHint, Telemetry};

/// What may be spent on one target with one credential. Clones share it.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    lanes: Vec<Arc<str>>,
    started: Instant,
    clock: Clock,
    telemetry: Telemetry,
    state: Mutex<State>,
}

struct State {
    ledger: Ledger,
    waiters: BTreeMap<Ticket, Arc<Notify>>,
}

impl Budget {
    /// A budget for the target called `name`, full.
    #[must_use]
    pub fn new(name: &str, config: Config, telemetry: Telemetry, clock: Clock) -> Self {
        let mut lanes: Vec<Arc<str>> = config
            .lanes
            .iter()
            .map(|lane| Arc::from(lane.name.as_str()))
            .collect();
        if lanes.is_empty() {
            lanes.push(Arc::from("all"));
        }
        Self(Arc::new(Inner {
            name: name.into(),
            lanes,
            started: Instant::now(),
            clock,
            telemetry,
            state: Mutex::new(State {
                ledger: Ledger::new(config),
                waiters: BTreeMap::new(),
            }),
        }))
    }

    /// The target's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Waits for the right to make one call. Dropping the future gives the place up.
    ///
    /// # Errors
    /// [`Class::Throttled`](crate::Class::Throttled), at once, if it cannot be had before `deadline`.
    pub async fn acquire(&self, lane: Lane, deadline: Instant) -> Result<Permit> {
        let begin = Instant::now();
        let place = self.enter(lane, deadline)?;
        loop {
            let next = match place.advance() {
                Turn::Granted => break,
                Turn::At(next) => next.map_or(deadline, |next| next.min(deadline)),
            };
            tokio::select! {
                biased;
                () = place.told.notified() => {}
                () = sleep_until(next) => {
                    if Instant::now() >= deadline && !place.is_granted() {
                        return Err(self.refuse(lane));
                    }
                }
            }
        }
        let permit = place.take();
        self.0.telemetry.emit(BudgetWaited {
            target: &self.0.name,
            lane: self.lane_name(lane),
            waited: begin.elapsed(),
            tokens: self.with(|state| state.ledger.lane(self.index(lane)).0),
        });
        Ok(permit)
    }

    /// When calls are allowed again, if none is now.
    #[must_use]
    pub fn closed_until(&self) -> Option<Instant> {
        let until = self.with(|state| state.ledger.closed_until(self.now()));
        until.map(|until| self.0.started + until)
    }

    /// What is there to spend, for people.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let now = self.now();
        self.update(|_| ());
        self.with(|state| Snapshot {
            target: self.0.name.to_string(),
            rate: state.ledger.rate(),
            closed_for: state
                .ledger
                .closed_until(now)
                .map(|until| until.saturating_sub(now)),
            lanes: (0..self.0.lanes.len())
                .map(|lane| {
                    let (tokens, waiting, in_flight) = state.ledger.lane(lane);
                    LaneSnapshot {
                        name: self.0.lanes[lane].to_string(),
                        tokens,
                        waiting,
                        in_flight,
                    }
                })
                .collect(),
        })
    }

    pub(crate) fn lane_name(&self, lane: Lane) -> &Arc<str> {
        &self.0.lanes[self.index(lane)]
    }

    pub(crate) fn target(&self) -> &Arc<str> {
        &self.0.name
    }

    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.0.telemetry
    }

    fn index(&self, lane: Lane) -> usize {
        lane.0.min(self.0.lanes.len() - 1)
    }

    fn enter(&self, lane: Lane, deadline: Instant) -> Result<Place> {
        let by = deadline.saturating_duration_since(self.0.started);
        let told = Arc::new(Notify::new());
        let entered = self.update(|state| {
            if state.ledger.forecast(lane) > by {
                return None;
            }
            let ticket = state.ledger.enqueue(lane);
            state.waiters.insert(ticket, told.clone());
            Some(ticket)
        });
        let Some(ticket) = entered else {
            return Err(self.refuse(lane));
        };
        Ok(Place {
            budget: self.clone(),
            lane,
            ticket,
            told,
            taken: false,
        })
    }

    fn refuse(&self, lane: Lane) -> Error {
        let now = self.now();
        let forecast = self.with(|state| state.ledger.forecast(lane));
        // Where slots and not tokens are short nobody can say when; soon is a fair guess.
        let until = forecast.max(now + Duration::from_millis(100));
        self.0.telemetry.emit(BudgetRefused {
            target: &self.0.name,
            lane: self.lane_name(lane),
            wait: until.saturating_sub(now),
        });
        let what = format!("the budget of {} is spent", self.0.name);
        Error::throttled(what, self.0.started + until)
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn with<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings the ledger up to now, changes it, grants what it then can, and tells those it
    /// concerns.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let now = self.now();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let first: Vec<_> = state.ledger.heads().collect();
        let mut granted = state.ledger.pump(now);
        let value = change(&mut state);
        granted.extend(state.ledger.pump(now));
        let heads = state.ledger.heads().filter(|head| !first.contains(head));
        for ticket in granted.iter().copied().chain(heads) {
            if let Some(waiter) = state.waiters.get(&ticket) {
                waiter.notify_one();
            }
        }
        value
    }

    fn tell_heads(&self) {
        self.with(|state| {
            for ticket in state.ledger.heads() {
                if let Some(waiter) = state.waiters.get(&ticket) {
                    waiter.notify_one();
                }
            }
        });
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Budget").field(&self.0.name).finish()
    }
}

enum Turn {
    Granted,
    At(Option<Instant>),
}

/// A place in a lane. Given up when dropped, with what was granted and not taken.
struct Place {
    budget: Budget,
    lane: Lane,
    ticket: Ticket,
    told: Arc<Notify>,
    taken: bool,
}

impl Place {
    /// Grants what can be granted, and says when to look again: only the first of a lane has to.
    fn advance(&self) -> Turn {
        self.budget.update(|state| {
            if state.ledger.is_granted(self.ticket) {
                return Turn::Granted;
            }
            let first = state.ledger.heads().any(|head| head == self.ticket);
            let next = first.then(|| state.ledger.next_at()).flatten();
            Turn::At(next.map(|next| self.budget.0.started + next))
        })
    }

    fn is_granted(&self) -> bool {
        self.budget
            .update(|state| state.ledger.is_granted(self.ticket))
    }

    fn take(mut self) -> Permit {
        self.taken = true;
        let ticket = self.ticket;
        self.budget.update(|state| {
            state.waiters.remove(&ticket);
            state.ledger.take(ticket);
        });
        Permit {
            budget: self.budget.clone(),
            lane: self.lane,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.taken {
            let ticket = self.ticket;
            self.budget.update(|state| {
                state.waiters.remove(&ticket);
                state.ledger.cancel(ticket);
            });
        }
    }
}

/// The right to make one call. The slot is free again when it is dropped.
#[must_use = "a permit that is dropped was spent for nothing"]
#[derive(Debug)]
pub struct Permit {
    budget: Budget,
    lane: Lane,
}

impl Permit {
    /// Learns from an answer. A permit that is dropped without it teaches nothing.
    pub fn answered(&self, status: u16, headers: &HeaderMap) {
        let inner = &self.budget.0;
        let wall = inner.clock.now();
        let now = self.budget.now();
        let (lesson, before, after) = self.budget.update(|state| {
            let before = state.ledger.closed_until(now);
            let dialects = &state.ledger.config().dialects;
            let lesson = lesson::read(dialects, status, headers, wall);
            state.ledger.learn(&lesson, now);
            (lesson, before, state.ledger.closed_until(now))
        });
        // Whoever counted on the old rate has to look again.
        self.budget.tell_heads();
        if lesson.nonsense > 0 {
            inner.telemetry.emit(NonsenseHint {
                target: &inner.name,
                headers: lesson.nonsense,
            });
        }
        if lesson.refused || after > before {
            inner.telemetry.emit(BudgetClosed {
                target: &inner.name,
                refused: lesson.refused,
                wait: after.unwrap_or(now).saturating_sub(now),
                longer: after.unwrap_or(now).saturating_sub(before.unwrap_or(now)),
            });
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.update(|state| state.ledger.finish(self.lane));
        self.budget.tell_heads();
    }
}

/// A budget at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The target's name.
    pub target: String,
    /// Calls a second at this moment.
    pub rate: f64,
    /// How long no call is allowed.
    pub closed_for: Option<Duration>,
    /// The lanes, most urgent first.
    pub lanes: Vec<LaneSnapshot>,
}

/// A lane of a budget at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneSnapshot {
    /// Its name.
    pub name: String,
    /// Calls it could make at once.
    pub tokens: f64,
    /// Calls that wait.
    pub waiting: usize,
    /// Calls on their way.
    pub in_flight: usize,
}
