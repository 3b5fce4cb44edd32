//! Who waits for a path, and in which order they go.
//!
//! Deletions go first, then writes, then looks, but each lane has one grant of eight to itself, so that
//! none starves. One ticket per object, which keeps its place however often it asks.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPriority {
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
        let ahead = self.call_order(now).take_while(|ticket| ticket.key != *who);
        ahead.count()
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
mod tests {
    use super::*;

    fn order(queue: &CallQueue<u32>, now: Instant) -> Vec<u32> {
        queue.call_order(now).map(|ticket| ticket.key).collect()
    }

    #[test]
    fn deletions_go_first_and_no_lane_starves() {
        let now = Instant::now();
        let mut queue = CallQueue::default();
        for who in 0..10 {
            queue.push(&(who + 200), CallPriority::Read, now);
            queue.push(&(who + 100), CallPriority::Write, now);
            queue.push(&who, CallPriority::Delete, now);
        }
        let begin = [0, 1, 2, 100, 3, 4, 5, 200, 6, 7, 8, 101, 9, 102, 103, 201];
        assert_eq!(order(&queue, now)[..begin.len()], begin);
        for who in begin {
            assert_eq!(queue.call_order(now).next().map(|first| first.key), Some(who));
            queue.remove_granted(&who);
        }
        assert_eq!(queue.len(), 14);
    }

    #[test]
    fn a_repeated_request_keeps_the_place_and_a_different_one_does_not() {
        let now = Instant::now();
        let mut queue = CallQueue::default();
        for who in [1, 2, 3, 1] {
            queue.push(&who, CallPriority::Write, now);
        }
        assert_eq!(order(&queue, now), [1, 2, 3]);
        queue.push(&1, CallPriority::Read, now);
        assert_eq!(order(&queue, now), [2, 3, 1]);
        assert_eq!(queue.count_ahead(&1, now), 2);
    }

    #[test]
    fn an_absent_caller_is_skipped_and_keeps_its_place() {
        let now = Instant::now();
        let mut queue = CallQueue::default();
        queue.push(&1, CallPriority::Write, now);
        queue.push(&2, CallPriority::Write, now);
        let later = now + TURN_GRACE + Duration::from_millis(1);
        queue.set_wake_time(&2, later);
        assert_eq!(order(&queue, later), [2]);
        queue.push(&1, CallPriority::Write, later);
        assert_eq!(order(&queue, later), [1, 2]);
        queue.sweep(now + WAIT_EXPIRY);
        assert_eq!(queue.len(), 2);
        queue.sweep(later + WAIT_EXPIRY + Duration::from_millis(1));
        assert_eq!(queue.len(), 0);
    }
}
