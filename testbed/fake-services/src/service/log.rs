//! Every request that was made, with its number. Tokens never get here.

use std::collections::VecDeque;

/// How many are kept; the oldest go first.
const KEPT: usize = 1_000_000;

/// The requests of a run, oldest first.
#[derive(Clone, Debug)]
pub struct Log<E> {
    entries: VecDeque<E>,
    last: u64,
}

impl<E> Default for Log<E> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            last: 0,
        }
    }
}

impl<E: Clone> Log<E> {
    /// The number the next entry gets.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.last + 1
    }

    /// Adds the entry that is made with its number.
    pub fn push(&mut self, entry: impl FnOnce(u64) -> E) {
        self.last += 1;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry(self.last));
    }

    /// Those after number `n`.
    #[must_use]
    pub fn since(&self, n: u64) -> Vec<E> {
        let later = usize::try_from(self.last.saturating_sub(n)).unwrap_or(usize::MAX);
        let from = self.entries.len().saturating_sub(later);
        self.entries.range(from..).cloned().collect()
    }
}
