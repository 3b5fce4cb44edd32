//! What of the store's state the disk is told, and how a store goes on from a directory.
//!
//! Every method here does nothing where there is no directory.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use aplomb_apimachinery::clock::Clock;
use aplomb_apimachinery::encoded_object::EncodedViews;
use aplomb_apimachinery::status::GroupResource;
use jiff::Timestamp;

use super::commit_log::{Journal, Lost};
use super::disk::{Compaction, DataDir, Loaded, Step};
use super::table::Table;
use super::{Change, Hook, Key, State, Store, Window, after, read_durability};

impl Store {
    /// The store of a directory, as it was when it was last used.
    #[must_use]
    pub fn on_disk(clock: Clock, window: Window, write_noops: bool, data: DataDir) -> Self {
        let (file, lock, loaded) = data.into_parts();
        let now = clock.now();
        let (mut progress, mut closing) = (None, None);
        let state = Arc::new_cyclic(|state| {
            let (journal, writer) = Journal::start(file, lock, state.clone());
            progress = Some(journal.progress().clone());
            closing = Some(Arc::new(writer));
            Mutex::new(State::restored(loaded, journal, now, &window))
        });
        Self {
            clock,
            window,
            write_noops,
            state,
            progress,
            _closing: closing,
        }
    }

    /// Adds an observer of every later write, which sees first what is there, as if it were created.
    /// A write that the disk refuses is seen undone.
    pub fn replay_and_observe(&self, hook: Hook) {
        let mut state = self.lock();
        let (at, revision) = (self.clock.now(), state.revision);
        for (resource, table) in &state.tables {
            for (path, object) in &table.objects {
                hook(&Change {
                    revision,
                    at,
                    key: Key::at(resource, path),
                    old: None,
                    new: Some(object.clone()),
                    views: EncodedViews::default(),
                });
            }
        }
        state.observers.push(hook);
    }

    /// Does `work` and waits until everything it has read or written is on disk, so that it may be
    /// answered. Without a directory there is nothing to wait for.
    ///
    /// # Errors
    /// The disk did not take some of it, and that has been taken back.
    pub async fn settled<W: Future>(&self, work: Pin<&mut W>) -> Result<W::Output, Lost> {
        match &self.progress {
            Some(progress) => read_durability::settled(progress.clone(), work).await,
            None => Ok(work.await),
        }
    }
}

impl State {
    fn restored(loaded: Loaded, journal: Journal, now: Timestamp, window: &Window) -> Self {
        let Compaction {
            compacted,
            marked,
            next_tick,
        } = loaded.compaction;
        // However long the box was off, two ticks close all there is to close.
        let oldest = now.checked_sub(window.compaction.saturating_mul(2));
        let next_tick = Timestamp::from_millisecond(next_tick)
            .ok()
            .filter(|tick| *tick > Timestamp::UNIX_EPOCH)
            .map_or(after(now, window.compaction), |tick| tick.max(oldest.unwrap_or(tick)));
        let mut state = Self {
            revision: loaded.revision.max(1),
            compacted,
            marked: marked.max(1),
            next_tick,
            tables: Default::default(),
            observers: Vec::new(),
            hooks: Vec::new(),
            journal: Some(journal),
        };
        for (resource, floor) in loaded.floors {
            state.tables.insert(resource, Table::restored(floor));
        }
        for (key, object) in loaded.objects {
            let path = key.path();
            state.table(&key.resource).objects.insert(path, object);
        }
        for change in loaded.changes {
            let resource = change.key.resource.clone();
            state.table(&resource).remember(change);
        }
        state
    }

    /// Everything up to this revision may be shown.
    pub(super) fn durable(&self) -> u64 {
        self.journal.as_ref().map_or(u64::MAX, Journal::durable)
    }

    /// Notes that whoever holds the lock sees what is here now.
    pub(super) fn note(&self) {
        if let Some(journal) = &self.journal {
            read_durability::note(&journal.progress().borrow(), self.revision);
        }
    }

    /// Tells the disk of a write and of what it moved; whom it concerns hears of it from there.
    pub(super) fn tell(&mut self, change: &Arc<Change>) {
        let Some(journal) = &self.journal else {
            return self.publish(change);
        };
        if let Some(table) = self.tables.get(&change.key.resource) {
            journal.record(Step::Write {
                change: change.clone(),
                wake: table.wake.clone(),
            });
        }
        self.tell_of(&change.key.resource);
    }

    /// Shows a write that cannot be undone any more.
    pub(super) fn publish(&self, change: &Change) {
        for hook in &self.hooks {
            hook(change);
        }
    }

    /// Tells the disk what moved in the window of a resource.
    pub(super) fn tell_of(&mut self, resource: &GroupResource) {
        let Some(journal) = &self.journal else { return };
        let Some(untold) = self.tables.get_mut(resource).and_then(Table::untold) else {
            return;
        };
        if let Some(floor) = untold.floor {
            journal.record(Step::Floor {
                resource: resource.clone(),
                floor,
            });
        }
        if !untold.trimmed.is_empty() {
            journal.record(Step::Trim {
                revisions: untold.trimmed,
            });
        }
    }

    /// Tells the disk how far the past is closed, in every table.
    pub(super) fn tell_of_all(&mut self) {
        let Some(journal) = &self.journal else { return };
        journal.record(Step::Compacted(Compaction {
            compacted: self.compacted,
            marked: self.marked,
            next_tick: self.next_tick.as_millisecond(),
        }));
        let resources: Vec<GroupResource> = self.tables.keys().cloned().collect();
        for resource in &resources {
            self.tell_of(resource);
        }
    }

    /// Tells the disk that a resource is gone with everything that is remembered of it.
    pub(super) fn tell_forgotten(&mut self, resource: &GroupResource, table: &Table) {
        let Some(journal) = &self.journal else { return };
        let revisions = table.log().iter().map(|change| change.revision).collect();
        journal.record(Step::Trim { revisions });
        journal.record(Step::Forget {
            resource: resource.clone(),
        });
    }

    /// Undoes every write after `revision`, which the disk did not take. Observers see each undone,
    /// newest first; nobody else has seen any of them.
    pub(super) fn take_back(&mut self, revision: u64) {
        let mut undone: Vec<Arc<Change>> = self
            .tables
            .values_mut()
            .flat_map(|table| table.take_back(revision))
            .collect();
        undone.sort_by_key(|change| std::cmp::Reverse(change.revision));
        self.revision = revision.max(1);
        for change in undone {
            let back = Change {
                old: change.new.clone(),
                new: change.old.clone(),
                ..Change::clone(&change)
            };
            for observer in &self.observers {
                observer(&back);
            }
        }
    }
}
