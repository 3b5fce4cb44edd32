//! One resource's objects, its recent writes and the bell that wakes its watchers.
//!
//! The log serves two readers: watches, which may start at `floor`, and exact reads of the past,
//! which may go back to the last compaction. It must hold every write that either can still ask for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;

use super::{Change, Window};

pub(super) struct Table {
    pub(super) objects: BTreeMap<String, Arc<Value>>,
    /// Watches may start after this revision or any later one.
    pub(super) floor: u64,
    /// Changes when every watch has to end.
    pub(super) epoch: u64,
    pub(super) wake: Arc<Notify>,
    /// The newest write that is no longer in the log; a reader that has not seen it is cut.
    pub(super) dropped: u64,
    log: VecDeque<Arc<Change>>,
    /// How many of the newest entries of the log are open to watches.
    ring: usize,
}

impl Table {
    pub(super) fn new(revision: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            floor: revision,
            epoch: 0,
            dropped: 0,
            wake: Arc::new(Notify::new()),
            log: VecDeque::new(),
            ring: 0,
        }
    }

    pub(super) fn apply(&mut self, change: &Arc<Change>, window: &Window, compacted: u64) {
        let key = change.key.path();
        match &change.new {
            Some(object) => self.objects.insert(key, object.clone()),
            None => self.objects.remove(&key),
        };
        self.log.push_back(change.clone());
        self.ring += 1;
        self.evict(change, window);
        self.trim(compacted);
        self.wake.notify_waiters();
    }

    fn evict(&mut self, newest: &Change, window: &Window) {
        while self.ring > window.min_events {
            let oldest = &self.log[self.log.len() - self.ring];
            let age = newest.at.duration_since(oldest.at);
            if self.ring <= window.max_events && age.unsigned_abs() <= window.fresh {
                return;
            }
            self.floor = oldest.revision;
            self.ring -= 1;
        }
    }

    /// Drops what neither a watch nor an exact read can ask for.
    pub(super) fn trim(&mut self, compacted: u64) {
        while self.log.len() > self.ring
            && self
                .log
                .front()
                .is_some_and(|change| change.revision <= compacted)
        {
            self.dropped = self
                .log
                .pop_front()
                .map_or(self.dropped, |change| change.revision);
        }
    }

    /// Closes everything up to `revision` to watches.
    pub(super) fn drop_window(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
        let first = self.first_after(self.floor);
        self.ring = self.log.len() - first;
    }

    pub(super) fn restart(&mut self, revision: u64) {
        self.drop_window(revision);
        self.epoch += 1;
        self.wake.notify_waiters();
    }

    /// The objects as they stood at `revision`: the present with later writes undone.
    pub(super) fn at(&self, revision: u64) -> BTreeMap<String, Arc<Value>> {
        let mut objects = self.objects.clone();
        for change in self
            .log
            .iter()
            .rev()
            .take_while(|change| change.revision > revision)
        {
            let key = change.key.path();
            match &change.old {
                Some(old) => objects.insert(key, old.clone()),
                None => objects.remove(&key),
            };
        }
        objects
    }

    /// Up to `limit` writes after `revision`.
    pub(super) fn since(&self, revision: u64, limit: usize) -> Vec<Arc<Change>> {
        let first = self.first_after(revision);
        self.log.range(first..).take(limit).cloned().collect()
    }

    pub(super) fn log(&self) -> Vec<Arc<Change>> {
        self.log.iter().cloned().collect()
    }

    fn first_after(&self, revision: u64) -> usize {
        self.log
            .partition_point(|change| change.revision <= revision)
    }
}
