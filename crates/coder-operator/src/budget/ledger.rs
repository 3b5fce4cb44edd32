//! What may be spent at a server by one identity: a window and a queue for each path. Pure: the
//! caller passes the time, and gets back the callers to wake.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::edge::{WINDOW, WindowEdge};
use super::hint::Hint;
use super::queue::{CallPriority, CallQueue};
use super::window::SlidingWindow;

/// When one asks again where only an answer can tell; the answer itself tells sooner.
const UNSURE: Duration = Duration::from_secs(5);
/// A caller whose turn comes this much earlier than announced is woken.
const NOTABLE: Duration = Duration::from_millis(200);
/// How long a path is closed by a refusal that says nothing, and at most after several of them.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// How often paths without waiting callers are removed.
const SWEEP: Duration = Duration::from_secs(30);

/// Whether a call may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is on its way from now on.
    Now,
    /// Not before this. The place in the queue is kept.
    Later {
        /// When it is expected to be its turn.
        until: Instant,
        /// Whether the server has refused a call of this path, and it is closed for that.
        limited: bool,
    },
}

#[derive(Clone, Debug)]
struct Path<W> {
    window: SlidingWindow,
    queue: CallQueue<W>,
    closed: Option<Instant>,
    /// Refusals in a row that said nothing of when to come back.
    bare: u32,
    used: Instant,
}

/// The paths of one identity. Its limiter rolls all of them over at once.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<W> {
    paths: BTreeMap<String, Path<W>>,
    edge: Option<WindowEdge>,
    swept: Option<Instant>,
}

/// A path at one moment, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PathLevel {
    pub(crate) limit: Option<u32>,
    pub(crate) room: usize,
    pub(crate) waiting: usize,
    pub(crate) in_flight: u32,
    pub(crate) closed: Option<Instant>,
}

impl<W> Default for Ledger<W> {
    fn default() -> Self {
        Self {
            paths: BTreeMap::new(),
            edge: None,
            swept: None,
        }
    }
}

impl<W: Ord + Clone> Ledger<W> {
    /// Asks for the turn of `who` on a path, and says whose turn besides has come earlier than they were
    /// told.
    pub(crate) fn turn(
        &mut self,
        who: &W,
        lane: CallPriority,
        path: &str,
        now: Instant,
    ) -> (Step, Vec<W>) {
        self.sweep(now);
        let edge = self.edge;
        let path = self.path(path, now);
        path.queue.enter(who, lane, now);
        let ahead = path.queue.ahead(who, now);
        let step = if ahead < path.room(edge.as_ref(), now) {
            path.queue.serve(who);
            path.window.sent();
            Step::Now
        } else {
            let closed = path.closed.filter(|until| now < *until);
            let turn = path.window.at(edge.as_ref(), ahead + 1, now);
            let until = turn.max(closed).unwrap_or(now + UNSURE);
            path.queue.tell(who, until);
            Step::Later {
                until,
                limited: closed.is_some(),
            }
        };
        (step, path.ready(edge.as_ref(), now))
    }

    /// An answer came. Says whose turn has come.
    pub(crate) fn answered(
        &mut self,
        path: &str,
        hint: &Hint,
        sent: Instant,
        now: Instant,
    ) -> Vec<W> {
        if let Some(reading) = hint.reading {
            let edge = WindowEdge::learn(self.edge, reading.reset, hint.date, sent, now);
            self.edge = Some(edge);
        }
        let edge = self.edge;
        let path = self.path(path, now);
        path.window.heard(edge.as_ref(), hint, sent, now);
        if hint.limited() {
            path.close(edge.as_ref(), hint, now);
        } else {
            path.bare = 0;
        }
        path.ready(edge.as_ref(), now)
    }

    /// No answer will come to a call that was sent. It counts as spent.
    pub(crate) fn unanswered(&mut self, path: &str, now: Instant) -> Vec<W> {
        let edge = self.edge;
        let path = self.path(path, now);
        path.window.lost(edge.as_ref(), now);
        path.ready(edge.as_ref(), now)
    }

    /// A call was not sent after all.
    pub(crate) fn returned(&mut self, path: &str, now: Instant) -> Vec<W> {
        let edge = self.edge;
        let path = self.path(path, now);
        path.window.returned();
        path.ready(edge.as_ref(), now)
    }

    /// A caller gives up all its places.
    pub(crate) fn forget(&mut self, who: &W, now: Instant) -> Vec<W> {
        let edge = self.edge;
        let mut ready = Vec::new();
        for path in self.paths.values_mut() {
            if path.queue.leave(who) {
                ready.extend(path.ready(edge.as_ref(), now));
            }
        }
        ready
    }

    /// How every path stands.
    pub(crate) fn levels(&self, now: Instant) -> impl Iterator<Item = (&str, PathLevel)> {
        self.paths.iter().map(move |(name, path)| {
            let level = PathLevel {
                limit: path.window.limit(),
                room: path.room(self.edge.as_ref(), now),
                waiting: path.queue.len(),
                in_flight: path.window.in_flight(),
                closed: path.closed.filter(|until| now < *until),
            };
            (name.as_str(), level)
        })
    }

    fn path(&mut self, path: &str, now: Instant) -> &mut Path<W> {
        let path = self.paths.entry(path.to_owned()).or_insert_with(|| Path {
            window: SlidingWindow::default(),
            queue: CallQueue::default(),
            closed: None,
            bare: 0,
            used: now,
        });
        path.used = now;
        path
    }

    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now < swept + SWEEP) {
            return;
        }
        self.swept = Some(now);
        let edge = self.edge;
        self.paths.retain(|_, path| {
            path.queue.sweep(now);
            let idle = path.window.idle(edge.as_ref(), now)
                && path.queue.len() == 0
                && path.closed.is_none_or(|until| until <= now);
            !(idle && path.used + 2 * WINDOW < now)
        });
    }
}

impl<W: Ord + Clone> Path<W> {
    fn room(&self, edge: Option<&WindowEdge>, now: Instant) -> usize {
        match self.closed.is_some_and(|until| now < until) {
            true => 0,
            false => self.window.room(edge, now),
        }
    }

    /// The end of the window is the tight hint, and what the server asks for a loose one.
    fn close(&mut self, edge: Option<&WindowEdge>, hint: &Hint, now: Instant) {
        let reset = hint.reading.zip(edge);
        let reset = reset.map(|(reading, edge)| edge.latest(reading.reset));
        let asked = hint.retry_after.map(|wait| now + wait);
        let until = match reset.or(asked) {
            Some(until) => until,
            None => {
                let wait = SHORTEST * 2u32.saturating_pow(self.bare);
                self.bare = (self.bare + 1).min(6);
                now + wait.min(LONGEST)
            }
        };
        self.closed = self.closed.max(Some(until));
    }

    /// Those whose turn it is though they were told to come later, and the one after them if its turn
    /// will come earlier than it was told. They are told now.
    fn ready(&mut self, edge: Option<&WindowEdge>, now: Instant) -> Vec<W> {
        let room = self.room(edge, now);
        let first = self.queue.order(now).take(room);
        let early = first.filter(|ticket| ticket.told > now);
        let mut ready: Vec<W> = early.map(|ticket| ticket.who.clone()).collect();
        for who in &ready {
            self.queue.tell(who, now);
        }
        ready.extend(self.sooner(edge, room, now));
        ready
    }

    /// Only the first of those who still have to wait: it brings the one behind it forward in its turn.
    fn sooner(&mut self, edge: Option<&WindowEdge>, room: usize, now: Instant) -> Option<W> {
        let next = self.queue.order(now).nth(room)?;
        let turn = self.window.at(edge, room + 1, now)?;
        let turn = self.closed.map_or(turn, |until| turn.max(until));
        if turn + NOTABLE >= next.told {
            return None;
        }
        let who = next.who.clone();
        self.queue.tell(&who, turn);
        Some(who)
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "law_tests.rs"]
mod law;
