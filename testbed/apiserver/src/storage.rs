//! The memory of the box: every object at its revision, and the recent past.
//!
//! One counter for the whole store, as in etcd. The store knows keys and bytes, not kinds: what may
//! be written is decided in `registry`. Every write goes through [`Store::commit`].

mod commit_log;
mod cursor;
pub mod disk;
mod persist;
mod read_durability;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use aplomb_apimachinery::clock::Clock;
use aplomb_apimachinery::encoded_object::EncodedViews;
use aplomb_apimachinery::object;
use aplomb_apimachinery::status::GroupResource;

pub use commit_log::Lost;
pub use cursor::{Cursor, Next};
pub use disk::{DataDir, Secrets};

use commit_log::{Closing, Journal, Progress};
use table::Table;

/// Where an object is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Kind of place; versions of one resource share it.
    pub resource: GroupResource,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl Key {
    /// The key below its resource, as etcd orders it: `namespace/name`, or the name alone.
    #[must_use]
    pub fn path(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

impl Key {
    /// The key of a path below its resource.
    pub(crate) fn at(resource: &GroupResource, path: &str) -> Self {
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        Self {
            resource: resource.clone(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// One write: what was there and what is there now.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision this write took.
    pub revision: u64,
    /// When.
    pub at: Timestamp,
    /// Where.
    pub key: Key,
    /// The object before; `None` for a creation.
    pub old: Option<Arc<Value>>,
    /// The object after, with its new version; `None` for a deletion.
    pub new: Option<Arc<Value>>,
    /// What watches have made of it.
    pub views: EncodedViews,
}

/// Sees writes in order. Runs under the store's lock: it must not call back into the store.
pub type Hook = Arc<dyn Fn(&Change) + Send + Sync>;

/// Why a read of the past cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision that could have been asked for.
    pub oldest: u64,
}

/// The object was not at the expected version; here is what is there.
#[derive(Clone, Debug)]
pub struct Moved(pub Option<Arc<Value>>);

/// How much of the past is kept.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Events that are kept however old they are.
    pub min_events: usize,
    /// Events that are kept at most.
    pub max_events: usize,
    /// How long an event is kept at least, as far as `max_events` allows.
    pub fresh: Duration,
    /// How often everything older than the last time is dropped from exact reads.
    pub compaction: Duration,
    /// A watch that is this many events behind is cut off, as the server does with one whose buffer
    /// is full. What was there when it began does not count.
    pub behind: usize,
}

impl Default for Window {
    /// The bounds of the server's watch cache and its compaction interval.
    fn default() -> Self {
        Self {
            min_events: 100,
            max_events: 102_400,
            fresh: Duration::from_secs(75),
            compaction: Duration::from_secs(300),
            behind: usize::MAX,
        }
    }
}

struct State {
    revision: u64,
    compacted: u64,
    /// The revision at the last compaction tick: the next tick compacts up to it.
    marked: u64,
    next_tick: Timestamp,
    tables: BTreeMap<GroupResource, Table>,
    /// See every write as memory does, and see it undone if the disk refuses it.
    observers: Vec<Hook>,
    /// See what cannot be undone any more.
    hooks: Vec<Hook>,
    /// The way to the disk, where there is one.
    journal: Option<Journal>,
}

/// The objects of one box. Cheap to clone; clones share the objects.
#[derive(Clone)]
pub struct Store {
    clock: Clock,
    window: Window,
    write_noops: bool,
    state: Arc<Mutex<State>>,
    /// How far the disk is, where there is one.
    progress: Option<watch::Receiver<Progress>>,
    /// Dropped after the state, whose end it waits for.
    _closing: Option<Arc<Closing>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

/// Objects of one resource as they stood at one revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// In key order; keys as [`Key::path`].
    pub objects: BTreeMap<String, Arc<Value>>,
}

impl Store {
    /// An empty store at revision 1, as a fresh etcd.
    #[must_use]
    pub fn new(clock: Clock, window: Window, write_noops: bool) -> Self {
        let next_tick = after(clock.now(), window.compaction);
        let state = State {
            revision: 1,
            compacted: 0,
            marked: 1,
            next_tick,
            tables: BTreeMap::new(),
            observers: Vec::new(),
            hooks: Vec::new(),
            journal: None,
        };
        Self {
            clock,
            window,
            write_noops,
            state: Arc::new(Mutex::new(state)),
            progress: None,
            _closing: None,
        }
    }

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Adds a hook that sees every later write, once it is on disk where there is one.
    pub fn on_commit(&self, hook: Hook) {
        self.lock().hooks.push(hook);
    }

    /// The newest state of one object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        let state = self.lock();
        state.tables.get(&key.resource)?.objects.get(&key.path()).cloned()
    }

    /// The newest state of every object of a resource.
    #[must_use]
    pub fn snapshot(&self, resource: &GroupResource) -> Snapshot {
        let mut state = self.lock();
        let revision = state.revision;
        let objects = state.table(resource).objects.clone();
        Snapshot { revision, objects }
    }

    /// The newest state of the objects of a resource in a namespace, in key order; all of them
    /// where they are in none.
    #[must_use]
    pub fn within(&self, resource: &GroupResource, namespace: &str) -> Vec<Arc<Value>> {
        let state = self.lock();
        let table = state.tables.get(resource);
        table.map_or_else(Vec::new, |table| table.within(namespace))
    }

    /// The objects of a resource as they stood at `revision`.
    ///
    /// # Errors
    /// The revision lies before the last compaction.
    pub fn snapshot_at(&self, resource: &GroupResource, revision: u64) -> Result<Snapshot, Compacted> {
        let mut state = self.lock();
        let (now, every) = (self.clock.now(), self.window.compaction);
        state.tick(now, every);
        state.tell_of(resource);
        if revision < state.compacted {
            return Err(Compacted {
                oldest: state.compacted,
            });
        }
        let objects = state.table(resource).at(revision);
        Ok(Snapshot { revision, objects })
    }

    /// Writes `new` (or deletes on `None`) if the object is still `old`, and returns what is stored
    /// now: for a deletion the last state, at the version of the deletion. A write that changes
    /// nothing takes no revision.
    ///
    /// # Errors
    /// The object is no longer `old`.
    pub fn commit(&self, key: &Key, old: Option<&Arc<Value>>, new: Option<Value>) -> Result<Arc<Value>, Moved> {
        let mut state = self.lock();
        let now = self.clock.now();
        state.tick(now, self.window.compaction);
        let current = state.table(&key.resource).objects.get(&key.path()).cloned();
        if !same(current.as_ref(), old) {
            return Err(Moved(current));
        }
        if let (Some(current), Some(new)) = (&current, &new)
            && !self.write_noops
            && object::equal_but_version(current, new)
        {
            return Ok(current.clone());
        }
        let stored = state.write(key, current, new, now, &self.window);
        state.note();
        Ok(stored)
    }

    /// Starts following a resource after `from` (the present when `None`).
    ///
    /// # Errors
    /// The window no longer reaches back to `from`.
    pub fn follow(&self, resource: &GroupResource, from: Option<u64>) -> Result<Cursor, Compacted> {
        let mut state = self.lock();
        let revision = state.revision;
        let table = state.table(resource);
        let from = from.unwrap_or(revision);
        if from < table.floor {
            return Err(Compacted { oldest: table.floor });
        }
        Ok(Cursor::new(
            self.clone(),
            resource.clone(),
            (from, revision),
            table.epoch,
            table.wake.clone(),
        ))
    }

    /// Snapshot and cursor of the same moment.
    #[must_use]
    pub fn snapshot_and_follow(&self, resource: &GroupResource) -> (Snapshot, Cursor) {
        let mut state = self.lock();
        let revision = state.revision;
        let table = state.table(resource);
        let snapshot = Snapshot {
            revision,
            objects: table.objects.clone(),
        };
        let cursor = Cursor::new(
            self.clone(),
            resource.clone(),
            (revision, revision),
            table.epoch,
            table.wake.clone(),
        );
        (snapshot, cursor)
    }

    /// Every write still remembered of a resource, oldest first.
    #[must_use]
    pub fn log(&self, resource: &GroupResource) -> Vec<Arc<Change>> {
        self.lock().tables.get(resource).map(Table::log).unwrap_or_default()
    }

    /// Forgets everything before `revision` now, for exact reads and for watches.
    pub fn compact(&self, revision: u64) {
        let mut state = self.lock();
        state.compact(revision);
        for table in state.tables.values_mut() {
            table.drop_window(revision);
        }
        state.tell_of_all();
    }

    /// Ends every watch and empties every window, as a restart of the server does.
    pub fn restart(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        for table in state.tables.values_mut() {
            table.restart(revision);
        }
        state.tell_of_all();
    }

    /// Makes place for a resource: watches of it may start at this moment.
    pub fn open(&self, resource: &GroupResource) {
        let mut state = self.lock();
        state.table(resource);
        state.tell_of(resource);
    }

    /// Ends the watches of a resource and empties its window.
    pub fn reopen(&self, resource: &GroupResource) {
        let mut state = self.lock();
        let revision = state.revision;
        state.table(resource).restart(revision);
        state.tell_of(resource);
    }

    /// Forgets a resource that is no longer served. Its watches end.
    pub fn forget(&self, resource: &GroupResource) {
        let mut state = self.lock();
        if let Some(mut table) = state.tables.remove(resource) {
            table.restart(u64::MAX);
            state.tell_forgotten(resource, &table);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.note();
        state
    }
}

impl State {
    fn table(&mut self, resource: &GroupResource) -> &mut Table {
        let revision = self.revision;
        let on_disk = self.journal.is_some();
        self.tables
            .entry(resource.clone())
            .or_insert_with(|| Table::new(revision, on_disk))
    }

    fn write(
        &mut self,
        key: &Key,
        old: Option<Arc<Value>>,
        new: Option<Value>,
        at: Timestamp,
        window: &Window,
    ) -> Arc<Value> {
        self.revision += 1;
        let revision = self.revision;
        let new = new.map(|mut object| {
            object::set_resource_version(&mut object, revision);
            Arc::new(object)
        });
        let last = || old.as_ref().map(|old| Arc::new(object::at_version(old, revision)));
        let stored = new.clone().or_else(last).unwrap_or_default();
        let change = Arc::new(Change {
            revision,
            at,
            key: key.clone(),
            old,
            new,
            views: EncodedViews::default(),
        });
        let compacted = self.compacted;
        self.table(&key.resource).apply(&change, window, compacted);
        for observer in &self.observers {
            observer(&change);
        }
        self.tell(&change);
        stored
    }

    /// Compacts as often as the interval has passed; reads and writes drive it, no task does.
    fn tick(&mut self, now: Timestamp, every: Duration) {
        while now >= self.next_tick && !every.is_zero() {
            let (revision, marked) = (self.revision, self.marked);
            self.compact(marked);
            self.marked = revision;
            self.next_tick = after(self.next_tick, every);
            self.tell_of_all();
        }
    }

    fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        let compacted = self.compacted;
        for table in self.tables.values_mut() {
            table.trim(compacted);
        }
    }
}

fn after(start: Timestamp, by: Duration) -> Timestamp {
    start.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn same(a: Option<&Arc<Value>>, b: Option<&Arc<Value>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || object::resource_version(a) == object::resource_version(b),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
