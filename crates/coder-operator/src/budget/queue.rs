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
    Look,
}

/// A caller that does not come within this of its time lets the next one pass.
const PATIENCE: Duration = Duration::from_secs(3);
/// A caller that has not come for this long is dropped.
const INTEREST: Duration = Duration::from_secs(300);
/// In a round of eight grants: the one that looks come first in, and the one of writes.
const ROUND: usize = 8;
const LOOKS: usize = 7;
const WRITES: usize = 3;

/// A place in a lane.
#[derive(Clone, Debug)]
pub(crate) struct QueuedCall<W> {
    pub(crate) who: W,
    /// When it was last told to come.
    pub(crate) told: Instant,
}

impl<W> QueuedCall<W> {
    fn is_present(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.told) <= PATIENCE
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
    pub(crate) fn enter(&mut self, who: &W, lane: CallPriority, now: Instant) {
        let place = self.find(who);
        if let Some((_, index)) = place.filter(|(found, _)| *found == lane as usize) {
            self.lanes[lane as usize][index].told = now;
            return;
        }
        self.leave(who);
        self.lanes[lane as usize].push_back(QueuedCall {
            who: who.clone(),
            told: now,
        });
    }

    /// Gives a place up.
    pub(crate) fn leave(&mut self, who: &W) -> bool {
        let place = self.find(who);
        if let Some((lane, index)) = place {
            self.lanes[lane].remove(index);
        }
        place.is_some()
    }

    /// Gives a place up for a grant.
    pub(crate) fn serve(&mut self, who: &W) {
        if self.leave(who) {
            self.served = (self.served + 1) % ROUND;
        }
    }

    /// Says when to come.
    pub(crate) fn tell(&mut self, who: &W, when: Instant) {
        if let Some((lane, index)) = self.find(who) {
            self.lanes[lane][index].told = when;
        }
    }

    /// How many of those that are there go first.
    pub(crate) fn ahead(&self, who: &W, now: Instant) -> usize {
        let ahead = self.order(now).take_while(|ticket| ticket.who != *who);
        ahead.count()
    }

    /// Those that are there, in the order in which they go.
    pub(crate) fn order(&self, now: Instant) -> CallOrder<'_, W> {
        CallOrder {
            queue: self,
            next: [0; 3],
            served: self.served,
            now,
        }
    }

    /// Drops those who have lost interest.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let stays = |ticket: &QueuedCall<W>| now.saturating_duration_since(ticket.told) <= INTEREST;
        for lane in &mut self.lanes {
            lane.retain(stays);
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    fn find(&self, who: &W) -> Option<(usize, usize)> {
        let mut lanes = self.lanes.iter().enumerate();
        lanes.find_map(|(lane, tickets)| {
            let index = tickets.iter().position(|ticket| ticket.who == *who)?;
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
    fn head(&mut self, lane: CallPriority) -> Option<&'a QueuedCall<W>> {
        let (tickets, next) = (
            &self.queue.lanes[lane as usize],
            &mut self.next[lane as usize],
        );
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
            LOOKS => [
                CallPriority::Look,
                CallPriority::Delete,
                CallPriority::Write,
            ],
            WRITES => [
                CallPriority::Write,
                CallPriority::Delete,
                CallPriority::Look,
            ],
            _ => [
                CallPriority::Delete,
                CallPriority::Write,
                CallPriority::Look,
            ],
        };
        self.served = (self.served + 1) % ROUND;
        by_lane.into_iter().find_map(|lane| self.head(lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &CallQueue<u32>, now: Instant) -> Vec<u32> {
        queue.order(now).map(|ticket| ticket.who).collect()
    }

    #[test]
    fn deletions_go_first_and_no_lane_starves() {
        let now = Instant::now();
        let mut queue = CallQueue::default();
        for who in 0..10 {
            queue.enter(&(who + 200), CallPriority::Look, now);
            queue.enter(&(who + 100), CallPriority::Write, now);
            queue.enter(&who, CallPriority::Delete, now);
        }
        let begin = [0, 1, 2, 100, 3, 4, 5, 200, 6, 7, 8, 101, 9, 102, 103, 201];
        assert_eq!(order(&queue, now)[..begin.len()], begin);
        for who in begin {
            assert_eq!(queue.order(now).next().map(|first| first.who), Some(who));
            queue.serve(&who);
        }
        assert_eq!(queue.len(), 14);
    }

    #[test]
    fn asking_again_keeps_the_place_and_wanting_something_else_does_not() {
        let now = Instant::now();
        let mut queue = CallQueue::default();
        for who in [1, 2, 3, 1] {
            queue.enter(&who, CallPriority::Write, now);
        }
        assert_eq!(order(&queue, now), [1, 2, 3]);
        queue.enter(&1, CallPriority::Look, now);
        assert_eq!(order(&queue, now), [2, 3, 1]);
        assert_eq!(queue.ahead(&1, now), 2);
    }

    #[test]
    fn whoever_does_not_come_is_passed_over_and_has_its_place_when_it_does() {
        let now = Instant::now();
        let mut queue = CallQueue::default();
        queue.enter(&1, CallPriority::Write, now);
        queue.enter(&2, CallPriority::Write, now);
        let later = now + PATIENCE + Duration::from_millis(1);
        queue.tell(&2, later);
        assert_eq!(order(&queue, later), [2]);
        queue.enter(&1, CallPriority::Write, later);
        assert_eq!(order(&queue, later), [1, 2]);
        queue.sweep(now + INTEREST);
        assert_eq!(queue.len(), 2);
        queue.sweep(later + INTEREST + Duration::from_millis(1));
        assert_eq!(queue.len(), 0);
    }
}
