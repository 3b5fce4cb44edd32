//! Deduplicates concurrent reads, and caches each result briefly.
//!
//! For reads of other systems with a small rate limit. A failure is returned to all waiters
//! and not cached. No task is started: the waiters drive the read, and if the first of them
//! is dropped another continues it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{Error, Result};

type Read<V> = Shared<BoxFuture<'static, Result<V, Arc<Error>>>>;

/// Shared reads by key. Clones share them.
#[derive(Clone)]
pub struct SingleFlight<K, V>(Arc<Inner<K, V>>);

struct Inner<K, V> {
    max_age: Duration,
    capacity: usize,
    reads: Mutex<Reads<K, V>>,
}

struct Reads<K, V> {
    number: u64,
    entries: BTreeMap<K, Entry<V>>,
}

struct Entry<V> {
    number: u64,
    state: State<V>,
}

enum State<V> {
    InFlight(Read<V>),
    Cached { value: V, at: Instant },
}

enum Lookup<V> {
    Fresh(V),
    /// The read in progress, and its number.
    InFlight(u64, Read<V>),
}

impl<K, V> SingleFlight<K, V>
where
    K: Ord + Clone,
    V: Clone + Send + Sync + 'static,
{
    /// Caches each value for `fresh`, and at most `most` of them.
    #[must_use]
    pub fn new(fresh: Duration, most: usize) -> Self {
        let reads = Reads {
            number: 0,
            entries: BTreeMap::new(),
        };
        Self(Arc::new(Inner {
            max_age: fresh,
            capacity: most,
            reads: Mutex::new(reads),
        }))
    }

    /// The value of `key`: a fresh cached one, the result of the read in progress, or else the result of
    /// `read`. The deadline and lane of a read are those of the caller that started it.
    ///
    /// # Errors
    /// The error of the read, for all callers that waited for it.
    pub async fn get<F>(&self, key: &K, read: impl FnOnce() -> F) -> Result<V>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let (number, flying) = match self.get_or_start(key, read) {
            Lookup::Fresh(value) => return Ok(value),
            Lookup::InFlight(number, flying) => (number, flying),
        };
        let result = flying.await;
        self.complete_read(key, number, &result);
        result.map_err(|error| error.shared_copy())
    }

    /// Drops the value of `key`; a read in progress is not repeated.
    pub fn invalidate(&self, key: &K) {
        self.reads(|reads| reads.entries.remove(key));
    }

    fn get_or_start<F>(&self, key: &K, read: impl FnOnce() -> F) -> Lookup<V>
    where
        F: Future<Output = Result<V>> + Send + 'static,
    {
        let now = Instant::now();
        let fresh = self.0.max_age;
        self.reads(|reads| {
            match reads.entries.get(key).map(|entry| (entry.number, &entry.state)) {
                Some((_, State::Cached { value, at })) if now < *at + fresh => {
                    return Lookup::Fresh(value.clone());
                }
                // A read whose waiters were all dropped has stopped: its deadline is over.
                Some((number, State::InFlight(read))) if is_awaited(read) => {
                    return Lookup::InFlight(number, read.clone());
                }
                _ => {}
            }
            reads.number += 1;
            let number = reads.number;
            let flying = read().map(|result| result.map_err(Arc::new)).boxed().shared();
            let state = State::InFlight(flying.clone());
            reads.entries.insert(key.clone(), Entry { number, state });
            Lookup::InFlight(number, flying)
        })
    }

    /// Caches a value, unless a newer read of the key was started or it was dropped.
    fn complete_read(&self, key: &K, number: u64, result: &Result<V, Arc<Error>>) {
        let at = Instant::now();
        self.reads(|reads| {
            let Some(entry) = reads.entries.get_mut(key) else {
                return;
            };
            if entry.number != number || matches!(entry.state, State::Cached { .. }) {
                return;
            }
            match result {
                Ok(value) => {
                    let value = value.clone();
                    entry.state = State::Cached { value, at };
                    self.evict(reads, at);
                }
                Err(_) => drop(reads.entries.remove(key)),
            }
        });
    }

    /// Drops values that are not fresh, and the oldest beyond the limit.
    fn evict(&self, reads: &mut Reads<K, V>, now: Instant) {
        if reads.entries.len() <= self.0.capacity {
            return;
        }
        let fresh = self.0.max_age;
        reads.entries.retain(|_, entry| match &entry.state {
            State::InFlight(_) => true,
            State::Cached { at, .. } => now < *at + fresh,
        });
        while reads.entries.len() > self.0.capacity {
            let landed = |entry: &Entry<V>| matches!(entry.state, State::Cached { .. });
            let kept = reads.entries.iter().filter(|(_, entry)| landed(entry));
            let Some(oldest) = kept.min_by_key(|(_, entry)| entry.number) else {
                return;
            };
            let oldest = oldest.0.clone();
            reads.entries.remove(&oldest);
        }
    }

    fn reads<T>(&self, act: impl FnOnce(&mut Reads<K, V>) -> T) -> T {
        act(&mut self.0.reads.lock())
    }
}

/// Whether a waiter in addition to the table holds the read, or it is done.
fn is_awaited<V: Clone>(read: &Read<V>) -> bool {
    read.peek().is_some() || read.strong_count() > Some(1)
}

impl<K, V> fmt::Debug for SingleFlight<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight")
            .field("fresh", &self.0.max_age)
            .finish_non_exhaustive()
    }
}
