//! A first-in first-out list of slots from which any slot can be removed in constant time.
//!
//! Doubly linked through an array indexed by slot, so that every operation is O(1) and allocates
//! only when a slot number is seen for the first time.

use std::time::Duration;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
    /// `None`: not in the list.
    entered_at: Option<Duration>,
}

const UNLINKED: Link = Link {
    prev: NIL,
    next: NIL,
    entered_at: None,
};

#[derive(Debug)]
pub(super) struct SlotList {
    links: Vec<Link>,
    head: u32,
    tail: u32,
    len: usize,
    /// The sum of all entry times, so that the sum of all ages is available at no cost.
    entered_sum: Duration,
}

impl SlotList {
    pub(super) const fn new() -> Self {
        Self {
            links: Vec::new(),
            head: NIL,
            tail: NIL,
            len: 0,
            entered_sum: Duration::ZERO,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The oldest slot, and since when it has been in the list.
    #[inline]
    pub(super) fn front(&self) -> Option<(u32, Duration)> {
        let entered = self.link(self.head).entered_at?;
        Some((self.head, entered))
    }

    /// The sum of all ages.
    pub(super) fn total_age(&self, now: Duration) -> Duration {
        let count = u32::try_from(self.len).unwrap_or(u32::MAX);
        now.saturating_mul(count).saturating_sub(self.entered_sum)
    }

    /// In first-in first-out order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Duration)> + '_ {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let slot = at;
            let link = self.link(slot);
            at = link.next;
            Some((slot, link.entered_at?))
        })
    }

    /// Adds `slot` at the end, unless it is in the list already.
    #[inline]
    pub(super) fn push_back(&mut self, slot: u32, now: Duration) {
        let index = slot as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, UNLINKED);
        }
        if self.links[index].entered_at.is_some() {
            return;
        }
        self.links[index] = Link {
            prev: self.tail,
            next: NIL,
            entered_at: Some(now),
        };
        match self.tail {
            NIL => self.head = slot,
            tail => self.links[tail as usize].next = slot,
        }
        self.tail = slot;
        self.len += 1;
        self.entered_sum = self.entered_sum.saturating_add(now);
    }

    /// Removes `slot`, if it is in the list.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        let link = self.link(slot);
        let Some(entered) = link.entered_at else {
            return;
        };
        match link.prev {
            NIL => self.head = link.next,
            prev => self.links[prev as usize].next = link.next,
        }
        match link.next {
            NIL => self.tail = link.prev,
            next => self.links[next as usize].prev = link.prev,
        }
        self.links[slot as usize] = UNLINKED;
        self.len -= 1;
        self.entered_sum = self.entered_sum.saturating_sub(entered);
    }

    #[inline]
    fn link(&self, slot: u32) -> Link {
        self.links.get(slot as usize).copied().unwrap_or(UNLINKED)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue_with_removal(steps in prop::collection::vec((0_u32..12, any::<bool>()), 0..200)) {
            let mut fifo = SlotList::new();
            let mut model: VecDeque<(u32, Duration)> = VecDeque::new();
            for (i, (slot, push)) in steps.into_iter().enumerate() {
                let now = Duration::from_secs(i as u64);
                if !push {
                    fifo.remove(slot);
                    model.retain(|entry| entry.0 != slot);
                } else if !model.iter().any(|entry| entry.0 == slot) {
                    fifo.push_back(slot, now);
                    model.push_back((slot, now));
                }
                prop_assert_eq!(fifo.front(), model.front().copied());
                prop_assert!(fifo.iter().eq(model.iter().copied()));
                prop_assert_eq!(fifo.len(), model.len());
                let ages: Duration = model.iter().map(|entry| now - entry.1).sum();
                prop_assert_eq!(fifo.total_age(now), ages);
            }
        }
    }
}
