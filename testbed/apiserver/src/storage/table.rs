//! One resource's objects, its recent writes and the bell that wakes its watchers.
//!
//! The log serves two readers: watches, which may start at `floor`, and exact reads of the past,
//! which may go back to the last compaction. It must hold every write that either can still ask for.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;

use super::{Change, Window};

/// So many of the newest writes keep what watches made of them; watchers are rarely further apart.
const SHARED: usize = 256;

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
    /// For the disk: what it has not been told yet. `None` where there is no disk.
    untold: Option<UnsentChange>,
}

/// What became of a table since the disk was told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnsentChange {
    /// Writes that left the log.
    pub(super) trimmed: Vec<u64>,
    /// Where watches may start now, if that has moved.
    pub(super) floor: Option<u64>,
}

impl Table {
    pub(super) fn new(revision: u64, on_disk: bool) -> Self {
        let untold = on_disk.then(|| UnsentChange {
            floor: Some(revision),
            ..UnsentChange::default()
        });
        Self {
            untold,
            objects: BTreeMap::new(),
            floor: revision,
            epoch: 0,
            dropped: 0,
            wake: Arc::new(Notify::new()),
            log: VecDeque::new(),
            ring: 0,
        }
    }

    /// A table as it was left on disk.
    pub(super) fn restored(floor: u64) -> Self {
        Self {
            untold: Some(UnsentChange::default()),
            ..Self::new(floor, true)
        }
    }

    /// Puts back a write of the past; the objects are those of the present already.
    pub(super) fn remember(&mut self, change: Arc<Change>) {
        self.ring += usize::from(change.revision > self.floor);
        self.log.push_back(change);
    }

    /// The objects of a namespace; all of them where their keys name none.
    pub(super) fn within(&self, namespace: &str) -> Vec<Arc<Value>> {
        let first = self.objects.keys().next();
        if first.is_none_or(|key| !key.contains('/')) {
            return self.objects.values().cloned().collect();
        }
        let prefix = format!("{namespace}/");
        let bounds = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let from = self.objects.range::<str, _>(bounds);
        from.take_while(|(key, _)| key.starts_with(&prefix))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// What the disk has to be told.
    pub(super) fn untold(&mut self) -> Option<UnsentChange> {
        let untold = self.untold.as_mut().map(std::mem::take);
        untold.filter(|untold| *untold != UnsentChange::default())
    }

    fn move_floor(&mut self, floor: u64) {
        self.floor = floor;
        if let Some(untold) = &mut self.untold {
            untold.floor = Some(floor);
        }
    }

    /// Undoes every write after `revision`; they are handed back newest first.
    pub(super) fn take_back(&mut self, revision: u64) -> Vec<Arc<Change>> {
        let first = self.first_after(revision);
        let undone: Vec<Arc<Change>> = self.log.drain(first..).rev().collect();
        for change in &undone {
            let key = change.key.path();
            match &change.old {
                Some(old) => self.objects.insert(key, old.clone()),
                None => self.objects.remove(&key),
            };
        }
        self.ring = self.ring.saturating_sub(undone.len());
        if self.floor > revision {
            self.move_floor(revision);
        }
        undone
    }

    pub(super) fn apply(&mut self, change: &Arc<Change>, window: &Window, compacted: u64) {
        let key = change.key.path();
        match &change.new {
            Some(object) => self.objects.insert(key, object.clone()),
            None => self.objects.remove(&key),
        };
        self.log.push_back(change.clone());
        if let Some(old) = self.log.len().checked_sub(SHARED + 1) {
            self.log[old].views.forget();
        }
        self.ring += 1;
        self.evict(change, window);
        self.trim(compacted);
        // Watchers are shown what is on disk: its writer rings the bell then.
        if self.untold.is_none() {
            self.wake.notify_waiters();
        }
    }

    fn evict(&mut self, newest: &Change, window: &Window) {
        while self.ring > window.min_events {
            let oldest = &self.log[self.log.len() - self.ring];
            let age = newest.at.duration_since(oldest.at);
            if self.ring <= window.max_events && age.unsigned_abs() <= window.fresh {
                return;
            }
            let passed = oldest.revision;
            self.move_floor(passed);
            self.ring -= 1;
        }
    }

    /// Drops what neither a watch nor an exact read can ask for.
    pub(super) fn trim(&mut self, compacted: u64) {
        while self.log.len() > self.ring && self.log.front().is_some_and(|change| change.revision <= compacted) {
            if let Some(change) = self.log.pop_front() {
                self.dropped = change.revision;
                if let Some(untold) = &mut self.untold {
                    untold.trimmed.push(change.revision);
                }
            }
        }
    }

    /// Closes everything up to `revision` to watches.
    pub(super) fn drop_window(&mut self, revision: u64) {
        if revision > self.floor {
            self.move_floor(revision);
        }
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
        for change in self.log.iter().rev().take_while(|change| change.revision > revision) {
            let key = change.key.path();
            match &change.old {
                Some(old) => objects.insert(key, old.clone()),
                None => objects.remove(&key),
            };
        }
        objects
    }

    /// Up to `limit` writes after `revision`, none of them after `last`.
    pub(super) fn since(&self, revision: u64, last: u64, limit: usize) -> Vec<Arc<Change>> {
        let first = self.first_after(revision);
        self.log
            .range(first..)
            .take(limit)
            .take_while(|change| change.revision <= last)
            .cloned()
            .collect()
    }

    /// How many writes there are after `revision`.
    pub(super) fn count_since(&self, revision: u64) -> usize {
        self.log.len() - self.first_after(revision)
    }

    pub(super) fn log(&self) -> Vec<Arc<Change>> {
        self.log.iter().cloned().collect()
    }

    fn first_after(&self, revision: u64) -> usize {
        self.log.partition_point(|change| change.revision <= revision)
    }
}
