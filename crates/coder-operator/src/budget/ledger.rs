//! What may be spent at a server by one identity: a window and a queue for each path. Pure: the
//! caller passes the time, and gets back the callers to wake.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::hint::Hint;
use super::window::{SlidingWindow, WINDOW, WindowEdge};

/// When one asks again where only an answer can tell; the answer itself tells sooner.
const UNKNOWN_RETRY: Duration = Duration::from_secs(5);
/// A caller whose turn comes this much earlier than announced is woken.
const MIN_NOTIFY_GAIN: Duration = Duration::from_millis(200);
/// How long a path is closed by a refusal that says nothing, and at most after several of them.
const MIN_CLOSED: Duration = Duration::from_secs(1);
const MAX_CLOSED: Duration = Duration::from_secs(60);
/// How often paths without waiting callers are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

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
    closed_until: Option<Instant>,
    /// Refusals in a row that said nothing of when to come back.
    unhinted_refusals: u32,
    last_used: Instant,
}

/// The paths of one identity. Its limiter rolls all of them over at once.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<W> {
    paths: BTreeMap<String, Path<W>>,
    edge: Option<WindowEdge>,
    swept_at: Option<Instant>,
}

/// A path at one moment, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PathLevel {
    pub(crate) limit: Option<u32>,
    pub(crate) room: usize,
    pub(crate) waiting: usize,
    pub(crate) in_flight: u32,
    pub(crate) closed_until: Option<Instant>,
}

impl<W> Default for Ledger<W> {
    fn default() -> Self {
        Self {
            paths: BTreeMap::new(),
            edge: None,
            swept_at: None,
        }
    }
}

impl<W: Ord + Clone> Ledger<W> {
    /// Asks for the turn of `who` on a path, and says whose turn besides has come earlier than they were
    /// told.
    pub(crate) fn turn(&mut self, who: &W, lane: CallPriority, path: &str, now: Instant) -> (Step, Vec<W>) {
        self.sweep(now);
        let edge = self.edge;
        let path = self.path_mut(path, now);
        path.queue.push(who, lane, now);
        let ahead = path.queue.count_ahead(who, now);
        let step = if ahead < path.room(edge.as_ref(), now) {
            path.queue.remove_granted(who);
            path.window.record_sent();
            Step::Now
        } else {
            let closed = path.closed_until.filter(|until| now < *until);
            let turn = path.window.nth_call_at(edge.as_ref(), ahead + 1, now);
            let until = turn.max(closed).unwrap_or(now + UNKNOWN_RETRY);
            path.queue.set_wake_time(who, until);
            Step::Later {
                until,
                limited: closed.is_some(),
            }
        };
        (step, path.notify_ready(edge.as_ref(), now))
    }

    /// An answer came. Says whose turn has come.
    pub(crate) fn record_answer(&mut self, path: &str, hint: &Hint, sent: Instant, now: Instant) -> Vec<W> {
        if let Some(reading) = hint.reading {
            let edge = WindowEdge::learn(self.edge, reading.reset, hint.date, sent, now);
            self.edge = Some(edge);
        }
        let edge = self.edge;
        let path = self.path_mut(path, now);
        path.window.record_answer(edge.as_ref(), hint, sent, now);
        if hint.is_limited() {
            path.close_path(edge.as_ref(), hint, now);
        } else {
            path.unhinted_refusals = 0;
        }
        path.notify_ready(edge.as_ref(), now)
    }

    /// No answer will come to a call that was sent. It counts as spent.
    pub(crate) fn record_no_answer(&mut self, path: &str, now: Instant) -> Vec<W> {
        let edge = self.edge;
        let path = self.path_mut(path, now);
        path.window.record_lost(edge.as_ref(), now);
        path.notify_ready(edge.as_ref(), now)
    }

    /// A call was not sent after all.
    pub(crate) fn release_call(&mut self, path: &str, now: Instant) -> Vec<W> {
        let edge = self.edge;
        let path = self.path_mut(path, now);
        path.window.record_returned();
        path.notify_ready(edge.as_ref(), now)
    }

    /// A caller gives up all its places.
    pub(crate) fn remove(&mut self, who: &W, now: Instant) -> Vec<W> {
        let edge = self.edge;
        let mut ready = Vec::new();
        for path in self.paths.values_mut() {
            if path.queue.remove(who) {
                ready.extend(path.notify_ready(edge.as_ref(), now));
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
                closed_until: path.closed_until.filter(|until| now < *until),
            };
            (name.as_str(), level)
        })
    }

    fn path_mut(&mut self, path: &str, now: Instant) -> &mut Path<W> {
        let path = self.paths.entry(path.to_owned()).or_insert_with(|| Path {
            window: SlidingWindow::default(),
            queue: CallQueue::default(),
            closed_until: None,
            unhinted_refusals: 0,
            last_used: now,
        });
        path.last_used = now;
        path
    }

    fn sweep(&mut self, now: Instant) {
        if self.swept_at.is_some_and(|swept| now < swept + SWEEP_INTERVAL) {
            return;
        }
        self.swept_at = Some(now);
        let edge = self.edge;
        self.paths.retain(|_, path| {
            path.queue.sweep(now);
            let idle = path.window.is_idle(edge.as_ref(), now)
                && path.queue.len() == 0
                && path.closed_until.is_none_or(|until| until <= now);
            !(idle && path.last_used + 2 * WINDOW < now)
        });
    }
}

impl<W: Ord + Clone> Path<W> {
    fn room(&self, edge: Option<&WindowEdge>, now: Instant) -> usize {
        match self.closed_until.is_some_and(|until| now < until) {
            true => 0,
            false => self.window.room(edge, now),
        }
    }

    /// The end of the window is the tight hint, and what the server asks for a loose one.
    fn close_path(&mut self, edge: Option<&WindowEdge>, hint: &Hint, now: Instant) {
        let reset = hint.reading.zip(edge);
        let reset = reset.map(|(reading, edge)| edge.latest_end(reading.reset));
        let asked = hint.retry_after.map(|wait| now + wait);
        let until = match reset.or(asked) {
            Some(until) => until,
            None => {
                let wait = MIN_CLOSED * 2u32.saturating_pow(self.unhinted_refusals);
                self.unhinted_refusals = (self.unhinted_refusals + 1).min(6);
                now + wait.min(MAX_CLOSED)
            }
        };
        self.closed_until = self.closed_until.max(Some(until));
    }

    /// Those whose turn it is though they were told to come later, and the one after them if its turn
    /// will come earlier than it was told. They are told now.
    fn notify_ready(&mut self, edge: Option<&WindowEdge>, now: Instant) -> Vec<W> {
        let room = self.room(edge, now);
        let first = self.queue.call_order(now).take(room);
        let early = first.filter(|ticket| ticket.notified_at > now);
        let mut ready: Vec<W> = early.map(|ticket| ticket.key.clone()).collect();
        for who in &ready {
            self.queue.set_wake_time(who, now);
        }
        ready.extend(self.notify_earlier(edge, room, now));
        ready
    }

    /// Only the first of those who still have to wait: it brings the one behind it forward in its turn.
    fn notify_earlier(&mut self, edge: Option<&WindowEdge>, room: usize, now: Instant) -> Option<W> {
        let next = self.queue.call_order(now).nth(room)?;
        let turn = self.window.nth_call_at(edge, room + 1, now)?;
        let turn = self.closed_until.map_or(turn, |until| turn.max(until));
        if turn + MIN_NOTIFY_GAIN >= next.notified_at {
            return None;
        }
        let who = next.key.clone();
        self.queue.set_wake_time(&who, turn);
        Some(who)
    }
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallPriority {
    /// Takes something back: an object waits to be gone.
    Delete,
    /// Makes or changes something.
    Write,
    /// Looks.
    Read,
}

/// A caller that does not come within this of its time lets the next one pass.
const TURN_GRACE: Duration = Duration::from_secs(3);
/// A caller that has not come for this long is dropped.
const WAIT_EXPIRY: Duration = Duration::from_secs(300);
/// In a round of eight grants: the one that looks come first in, and the one of writes.
const ROUND_GRANTS: usize = 8;
const READ_SLOT: usize = 7;
const WRITE_SLOT: usize = 3;

/// A place in a lane.
#[derive(Clone, Debug)]
pub(crate) struct QueuedCall<W> {
    pub(crate) key: W,
    /// When it was last told to come.
    pub(crate) notified_at: Instant,
}

impl<W> QueuedCall<W> {
    fn is_present(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.notified_at) <= TURN_GRACE
    }
}

/// The lanes of one path.
#[derive(Clone, Debug)]
pub(crate) struct CallQueue<W> {
    lanes: [VecDeque<QueuedCall<W>>; 3],
    served: usize,
}

impl<W> Default for CallQueue<W> {
    fn default() -> Self {
        Self {
            lanes: [VecDeque::new(), VecDeque::new(), VecDeque::new()],
            served: 0,
        }
    }
}

impl<W: Ord + Clone> CallQueue<W> {
    /// Takes the last place of a lane, or keeps the one it has there. A caller that now makes
    /// another kind of call leaves the lane it waited in.
    pub(crate) fn push(&mut self, who: &W, lane: CallPriority, now: Instant) {
        let place = self.find_ticket(who);
        if let Some((_, index)) = place.filter(|(found, _)| *found == lane as usize) {
            self.lanes[lane as usize][index].notified_at = now;
            return;
        }
        self.remove(who);
        self.lanes[lane as usize].push_back(QueuedCall {
            key: who.clone(),
            notified_at: now,
        });
    }

    /// Gives a place up.
    pub(crate) fn remove(&mut self, who: &W) -> bool {
        let place = self.find_ticket(who);
        if let Some((lane, index)) = place {
            self.lanes[lane].remove(index);
        }
        place.is_some()
    }

    /// Gives a place up for a grant.
    pub(crate) fn remove_granted(&mut self, who: &W) {
        if self.remove(who) {
            self.served = (self.served + 1) % ROUND_GRANTS;
        }
    }

    /// Says when to come.
    pub(crate) fn set_wake_time(&mut self, who: &W, when: Instant) {
        if let Some((lane, index)) = self.find_ticket(who) {
            self.lanes[lane][index].notified_at = when;
        }
    }

    /// How many of those that are there go first.
    pub(crate) fn count_ahead(&self, who: &W, now: Instant) -> usize {
        self.call_order(now).take_while(|ticket| ticket.key != *who).count()
    }

    /// Those that are there, in the order in which they go.
    pub(crate) fn call_order(&self, now: Instant) -> CallOrder<'_, W> {
        CallOrder {
            queue: self,
            next: [0; 3],
            served: self.served,
            now,
        }
    }

    /// Drops those who have lost interest.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let stays = |ticket: &QueuedCall<W>| now.saturating_duration_since(ticket.notified_at) <= WAIT_EXPIRY;
        for lane in &mut self.lanes {
            lane.retain(stays);
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    fn find_ticket(&self, who: &W) -> Option<(usize, usize)> {
        let mut lanes = self.lanes.iter().enumerate();
        lanes.find_map(|(lane, tickets)| {
            let index = tickets.iter().position(|ticket| ticket.key == *who)?;
            Some((lane, index))
        })
    }
}

/// The tickets of a queue in the order in which they go.
pub(crate) struct CallOrder<'a, W> {
    queue: &'a CallQueue<W>,
    next: [usize; 3],
    served: usize,
    now: Instant,
}

impl<'a, W> CallOrder<'a, W> {
    fn next_in_lane(&mut self, lane: CallPriority) -> Option<&'a QueuedCall<W>> {
        let (tickets, next) = (&self.queue.lanes[lane as usize], &mut self.next[lane as usize]);
        while let Some(ticket) = tickets.get(*next) {
            *next += 1;
            if ticket.is_present(self.now) {
                return Some(ticket);
            }
        }
        None
    }
}

impl<'a, W> Iterator for CallOrder<'a, W> {
    type Item = &'a QueuedCall<W>;

    fn next(&mut self) -> Option<Self::Item> {
        let by_lane = match self.served {
            READ_SLOT => [CallPriority::Read, CallPriority::Delete, CallPriority::Write],
            WRITE_SLOT => [CallPriority::Write, CallPriority::Delete, CallPriority::Read],
            _ => [CallPriority::Delete, CallPriority::Write, CallPriority::Read],
        };
        self.served = (self.served + 1) % ROUND_GRANTS;
        by_lane.into_iter().find_map(|lane| self.next_in_lane(lane))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod law;
