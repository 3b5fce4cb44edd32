//! Collections of slots: a first-in first-out list, and the due times of waiting keys.

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
    #[cfg(test)]
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

const UNSET: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    due: Duration,
    /// Timers due at the same time fire in the order they were set.
    set: u64,
    slot: u32,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: Vec<Timer>,
    /// The position of each slot's timer in the heap.
    positions: Vec<u32>,
    set: u64,
}

impl Timers {
    #[inline]
    pub(super) fn first(&self) -> Option<Duration> {
        self.heap.first().map(|timer| timer.due)
    }

    /// In arbitrary order.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Duration)> + '_ {
        self.heap.iter().map(|timer| (timer.slot, timer.due))
    }

    /// Sets the timer of `slot`, replacing an earlier one.
    pub(super) fn set(&mut self, slot: u32, due: Duration) {
        self.clear(slot);
        if self.positions.len() <= slot as usize {
            self.positions.resize(slot as usize + 1, UNSET);
        }
        self.set += 1;
        let place = self.heap.len();
        self.heap.push(Timer {
            due,
            set: self.set,
            slot,
        });
        self.update_position(place);
        self.sift_up(place);
    }

    /// Removes the timer of `slot`, if it has one.
    #[inline]
    pub(super) fn clear(&mut self, slot: u32) {
        let Some(&place) = self.positions.get(slot as usize) else {
            return;
        };
        if place != UNSET {
            self.remove(place as usize);
        }
    }

    /// Removes the timer that is due first, if it is due by `now`.
    #[inline]
    pub(super) fn pop(&mut self, now: Duration) -> Option<u32> {
        let timer = *self.heap.first()?;
        if timer.due > now {
            return None;
        }
        self.remove(0);
        Some(timer.slot)
    }

    fn remove(&mut self, place: usize) {
        let last = self.heap.len() - 1;
        self.heap.swap(place, last);
        if let Some(timer) = self.heap.pop() {
            self.positions[timer.slot as usize] = UNSET;
        }
        if place < last {
            self.update_position(place);
            self.sift_up(place);
            self.sift_down(place);
        }
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= self.heap[place] {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let right_first = right < self.heap.len() && self.heap[right] < self.heap[left];
            let child = if right_first { right } else { left };
            if self.heap[place] <= self.heap[child] {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.update_position(a);
        self.update_position(b);
    }

    fn update_position(&mut self, place: usize) {
        let slot = self.heap[place].slot as usize;
        self.positions[slot] = u32::try_from(place).expect("as many timers as slots, which are u32");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

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

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Clear(u32),
        Pop(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u32..20, 0_u64..50).prop_map(|(slot, due)| Step::Set(slot, due)),
            (0_u32..20).prop_map(Step::Clear),
            (0_u64..50).prop_map(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn the_first_due_fires_first_and_a_cleared_timer_never(steps in prop::collection::vec(step(), 0..300)) {
            let mut timers = Timers::default();
            let mut model: BTreeMap<u32, (u64, usize)> = BTreeMap::new();
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Set(slot, due) => {
                        timers.set(slot, Duration::from_secs(due));
                        model.insert(slot, (due, i));
                    }
                    Step::Clear(slot) => {
                        timers.clear(slot);
                        model.remove(&slot);
                    }
                    Step::Pop(now) => {
                        let first = model.iter().map(|(slot, timer)| (*timer, *slot)).min();
                        let expected = first.filter(|((due, _), _)| *due <= now).map(|(_, slot)| slot);
                        prop_assert_eq!(timers.pop(Duration::from_secs(now)), expected);
                        expected.map(|slot| model.remove(&slot));
                    }
                }
                let first = model.values().map(|timer| Duration::from_secs(timer.0)).min();
                prop_assert_eq!(timers.first(), first);
                prop_assert_eq!(timers.iter().count(), model.len());
            }
        }
    }
}
