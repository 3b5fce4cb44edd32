//! What several parts need: a hash that every run computes alike, and a map of bounded size.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A hash that is the same in every process: for jitter that a restart repeats, and to compare values.
pub(crate) fn seed_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A map that drops the entry that was not used for the longest time. Fully ordered: the dropped entry depends
/// only on the order of uses.
#[derive(Debug)]
pub(crate) struct LruMap<K, V> {
    capacity: usize,
    clock: u64,
    by_key: BTreeMap<K, (u64, V)>,
    by_time: BTreeMap<u64, K>,
}

impl<K: Clone + Ord, V> LruMap<K, V> {
    /// Room for `capacity` keys, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            clock: 0,
            by_key: BTreeMap::new(),
            by_time: BTreeMap::new(),
        }
    }

    /// The value of `key`, created if missing, and marked as the most recent.
    pub(crate) fn get_or_insert(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        if !self.by_key.contains_key(key) && self.by_key.len() >= self.capacity {
            self.pop_oldest();
        }
        self.clock += 1;
        let turn = self.clock;
        let (touched, value) = self.by_key.entry(key.clone()).or_insert_with(|| (0, make()));
        self.by_time.remove(touched);
        self.by_time.insert(turn, key.clone());
        *touched = turn;
        value
    }

    /// The value of `key`, if there is one, marked as the most recent.
    pub(crate) fn get_refresh(&mut self, key: &K) -> Option<&mut V> {
        let (touched, value) = self.by_key.get_mut(key)?;
        self.clock += 1;
        self.by_time.remove(touched);
        self.by_time.insert(self.clock, key.clone());
        *touched = self.clock;
        Some(value)
    }

    /// The value of `key`, without marking it as used.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.by_key.get(key).map(|(_, value)| value)
    }

    /// The least recently used key.
    pub(crate) fn oldest(&self) -> Option<(&K, &V)> {
        let (_, key) = self.by_time.first_key_value()?;
        Some((key, self.get(key)?))
    }

    /// Drops the least recently used key.
    pub(crate) fn pop_oldest(&mut self) -> Option<(K, V)> {
        let (_, key) = self.by_time.pop_first()?;
        let (_, value) = self.by_key.remove(&key)?;
        Some((key, value))
    }

    /// The keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.by_key.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recent_key_is_evicted_first() {
        let mut recent = LruMap::new(2);
        for key in ["a", "b", "a", "c"] {
            *recent.get_or_insert(&key, || 0) += 1;
        }
        assert_eq!(recent.keys().collect::<Vec<_>>(), [&"a", &"c"]);
        assert_eq!(recent.oldest(), Some((&"a", &2)));
        assert_eq!(recent.pop_oldest(), Some(("a", 2)));
        assert_eq!(recent.get(&"a"), None);
    }
}
