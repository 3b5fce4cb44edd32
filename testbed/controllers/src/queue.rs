//! The work queue of an actor: keys due at a time, each once, failures later and later.
//!
//! Order is a function of what was added: by time, then by arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The first and the longest wait after a failure, as Kubernetes' work queues have them.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1000);

#[derive(Debug)]
pub(super) struct Queue<K> {
    due: BTreeSet<(Instant, u64, K)>,
    waiting: BTreeMap<K, (Instant, u64)>,
    failures: BTreeMap<K, u32>,
    arrivals: u64,
}

impl<K: Ord + Clone> Queue<K> {
    pub(super) fn new() -> Self {
        Self {
            due: BTreeSet::new(),
            waiting: BTreeMap::new(),
            failures: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// Makes `key` due after `delay`, unless it is due earlier anyway.
    pub(super) fn add(&mut self, key: K, delay: Duration) {
        let at = Instant::now() + delay;
        if let Some((earlier, arrival)) = self.waiting.get(&key).copied() {
            if earlier <= at {
                return;
            }
            self.due.remove(&(earlier, arrival, key.clone()));
        }
        self.arrivals += 1;
        self.waiting.insert(key.clone(), (at, self.arrivals));
        self.due.insert((at, self.arrivals, key));
    }

    /// Makes `key` due again after a failure: twice as late as after the last one.
    pub(super) fn retry(&mut self, key: K) {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = FIRST_RETRY.saturating_mul(1 << (*failures).min(20)).min(LONGEST_RETRY);
        *failures += 1;
        self.add(key, delay);
    }

    /// Forgets the failures of `key`.
    pub(super) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Waits for the next key that is due. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> K {
        let Some((at, _, _)) = self.due.first() else {
            return std::future::pending().await;
        };
        sleep_until(*at).await;
        let (_, _, key) = self.due.pop_first().expect("it was there before the wait");
        self.waiting.remove(&key);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keys_come_once_and_in_time() {
        let begin = Instant::now();
        let mut queue = Queue::new();
        queue.add("late", Duration::from_secs(9));
        queue.add("a", Duration::from_secs(2));
        queue.add("late", Duration::from_secs(1));
        queue.add("a", Duration::from_secs(5));
        assert_eq!(queue.next().await, "late");
        assert_eq!(queue.next().await, "a");
        assert_eq!(begin.elapsed(), Duration::from_secs(2));
        assert!(queue.due.is_empty() && queue.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_until_forgotten() {
        let mut queue = Queue::new();
        let mut waits = Vec::new();
        for round in 0..4 {
            if round == 3 {
                queue.forget(&"a");
            }
            let begin = Instant::now();
            queue.retry("a");
            queue.next().await;
            waits.push(begin.elapsed().as_millis());
        }
        assert_eq!(waits, [5, 10, 20, 5]);
    }
}
