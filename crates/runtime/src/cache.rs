//! The objects of one watch: the watched state, with own writes that the watch has not shown yet on top.
//!
//! Readers never wait for the server. The lock is held for single reads and updates only, never
//! while a listener or an `await` runs.

mod event;
mod own_writes;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use self::event::CacheEvent;
use self::own_writes::ForeignChangeFn;
use self::state::CacheState;
pub(crate) use self::state::WatchUpdate;
pub(crate) use self::store::{DecodedObject, UndecodableObject};
use crate::key::{ObjectKey, ResourceVersion};
use crate::nulls;
use crate::view::View;

/// The objects of one watch. Clones share them.
pub struct Cache<T>(Arc<Inner<T>>);

struct Inner<T> {
    state: RwLock<CacheState<T>>,
    freshness: watch::Sender<Freshness>,
    foreign: OnceLock<ForeignChangeFn<T>>,
    /// A write was answered, so that changes that waited for the response can be delivered.
    write_answered: Notify,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: View> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("objects", &self.len())
            .field("freshness", &self.freshness())
            .finish()
    }
}

/// Reading.
impl<T: View> Cache<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            state: RwLock::new(CacheState::new()),
            freshness: watch::Sender::default(),
            foreign: OnceLock::new(),
            write_answered: Notify::new(),
        }))
    }

    /// The object, as this process wrote it last or as the watch shows it, whichever is newer.
    ///
    /// Also `None` for an object that does not fit the view: see [`Self::unreadable`].
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.0.state.read().get(key, Instant::now())
    }

    /// Every object, in the order of their keys.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<T>> {
        let now = Instant::now();
        let state = self.0.state.read();
        let watched = state.store.objects();
        let mut keys: Vec<&ObjectKey> = watched.iter().map(|(key, _)| key).collect();
        let before = keys.len();
        keys.extend(state.overlay.keys().filter(|key| watched.get(key).is_none()));
        if keys.len() > before {
            keys.sort_unstable();
        }
        keys.iter().filter_map(|key| state.get(key, now)).collect()
    }

    /// The objects that `index` has under `value`, in the order of their keys.
    #[must_use]
    pub fn by_index(&self, index: &str, value: &str) -> Vec<Arc<T>> {
        self.0.state.read().find(index, value, Instant::now())
    }

    /// The objects that have this UID as an owner, in the order of their keys.
    #[must_use]
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<T>> {
        self.by_index(store::OWNER_INDEX, uid)
    }

    /// Why the object cannot be read, if it exists and does not fit the view. Its last readable
    /// state is out of date and is not shown.
    #[must_use]
    pub fn unreadable(&self, key: &ObjectKey) -> Option<String> {
        let state = self.0.state.read();
        state.store.unreadable(key).map(str::to_owned)
    }

    /// The number of objects that the watch shows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.state.read().store.objects().len()
    }

    /// Whether the watch shows no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How current it is.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.0.freshness.borrow().clone()
    }

    /// Changes when freshness is gained or lost, not with every event.
    #[must_use]
    pub fn watch_freshness(&self) -> watch::Receiver<Freshness> {
        self.0.freshness.subscribe()
    }
}

/// Own writes.
impl<T: View> Cache<T> {
    /// Announces a write to `key` before it is sent. Its events wait for the response, which may
    /// arrive after them.
    #[must_use]
    pub fn begin_write(&self, key: &ObjectKey) -> PendingWrite<T> {
        PendingWrite::begin(self, key)
    }

    /// Applies the response to a read, for objects where the watch lags behind.
    pub fn record_read(&self, response: &Value) {
        if let Ok(object) = nulls::read::<T>(response) {
            self.0.state.write().record_read(Arc::new(object), Instant::now());
        }
    }

    /// Applies the response to a write of this process. Readers see it from now on.
    pub fn record_write(&self, response: &Value, mut made: WriteReceipt) {
        let Ok(object) = nulls::read::<T>(response) else {
            // The watch will report it as unreadable, with its name; it has a state that cannot be shown.
            return;
        };
        // An object that only one manager has ever written was created by this process.
        made.locked |= made.base.is_none() && has_one_manager(response);
        let mut state = self.0.state.write();
        state.record_write(Arc::new(object), made, Instant::now());
    }

    /// The server has carried out a deletion of the object with this UID.
    pub fn record_delete(&self, key: &ObjectKey, uid: &str) {
        self.0.state.write().record_delete(key, uid);
    }

    /// Sets the check whether two watched states differ in anything that a field manager did not write.
    /// Without it, only locked writes are recognized as our own when they come back. The first
    /// check is kept.
    pub fn set_foreign_check(&self, foreign: impl Fn(&T, &T, &str) -> bool + Send + Sync + 'static) {
        let _ = self.0.foreign.set(Arc::new(foreign));
    }
}

/// For the watch.
impl<T: View> Cache<T> {
    pub(crate) fn index(&self, name: &str, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) {
        self.0.state.write().index(name, Arc::new(values));
    }

    /// Applies an update of the watch, and returns the resulting events.
    pub(crate) fn apply_update(&self, news: WatchUpdate<T>) -> Vec<CacheEvent<T>> {
        let now = Instant::now();
        let (told, version) = {
            let mut state = self.0.state.write();
            (state.apply_update(news, now), state.store.version().cloned())
        };
        self.refresh(|freshness| {
            freshness.last_activity = Some(now);
            freshness.reconnecting_since = None;
            freshness.list_version = version;
        });
        self.to_events(told)
    }

    /// The events that waited for the response of a write and can now be delivered.
    pub(crate) fn take_held_events(&self) -> Vec<CacheEvent<T>> {
        let told = self.0.state.write().take_held_events();
        self.to_events(told)
    }

    /// Resolves when [`Self::take_answered`] may return something.
    pub(crate) async fn write_answered(&self) {
        self.0.write_answered.notified().await;
    }

    /// Changes the freshness; followers are woken if it was gained or lost.
    pub(crate) fn refresh(&self, change: impl FnOnce(&mut Freshness)) {
        self.0.freshness.send_if_modified(|freshness| {
            let before = (freshness.synced, freshness.reconnecting_since);
            change(freshness);
            before != (freshness.synced, freshness.reconnecting_since)
        });
    }

    fn to_events(&self, told: Vec<own_writes::AttributedChange<T>>) -> Vec<CacheEvent<T>> {
        let foreign = self.0.foreign.get();
        let told = told.into_iter();
        told.map(|told| told.into_event(foreign)).collect()
    }
}

fn has_one_manager(object: &Value) -> bool {
    let managed = object.pointer("/metadata/managedFields");
    let entries = managed.and_then(Value::as_array);
    let mut managers = entries.into_iter().flatten().map(|entry| &entry["manager"]);
    let first = managers.next();
    first.is_some() && managers.all(|manager| Some(manager) == first)
}

/// How current a cache is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Freshness {
    /// A complete list has been applied at least once.
    pub synced: bool,
    /// When the last list, event or bookmark was received.
    pub last_activity: Option<Instant>,
    /// Since when the watch is down, or has been silent for so long that it counts as down.
    pub reconnecting_since: Option<Instant>,
    /// Every change up to this version is in the cache.
    pub list_version: Option<ResourceVersion>,
}

impl Freshness {
    /// Whether the cache is complete and its watch alive. Its contents may then lag as much as the
    /// watch, but no more.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.synced && self.reconnecting_since.is_none()
    }

    /// Time since the last list, event or bookmark; `None` before the first.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let last = self.last_activity?;
        Some(now.saturating_duration_since(last))
    }
}

/// The conditions of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteReceipt {
    /// The version that was read before; `None` if there was none.
    pub base: Option<ResourceVersion>,
    /// Whether no foreign change can lie between that version and the response.
    pub locked: bool,
    /// The field manager.
    pub manager: Arc<str>,
}

/// A write that was announced and not answered yet. If it is dropped, it counts as failed, and changes
/// of the object in the meantime count as foreign.
#[derive(Debug)]
pub struct PendingWrite<T: View> {
    cache: Cache<T>,
    key: ObjectKey,
}

impl<T: View> PendingWrite<T> {
    pub(super) fn begin(cache: &Cache<T>, key: &ObjectKey) -> Self {
        cache.0.state.write().begin_write(key);
        Self {
            cache: cache.clone(),
            key: key.clone(),
        }
    }

    /// The write was answered with the object: see [`Cache::record_write`].
    pub fn record_write(self, response: &Value, made: WriteReceipt) {
        self.cache.record_write(response, made);
    }

    /// The object was deleted: see [`Cache::record_delete`].
    pub fn record_delete(self, uid: &str) {
        self.cache.record_delete(&self.key, uid);
    }
}

impl<T: View> Drop for PendingWrite<T> {
    fn drop(&mut self) {
        if self.cache.0.state.write().end_write(&self.key) {
            self.cache.0.write_answered.notify_one();
        }
    }
}
