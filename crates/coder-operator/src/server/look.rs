//! What many want to know is read once: what is known, the read that is under way, and what was
//! written since. This module makes no calls.
//!
//! A read is driven by those who wait for it; when the first of them is gone another goes on with
//! it, and when all are gone it ends. Failures are told to all who waited and not kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;

use super::{MaxAge, Timestamped};
use crate::object::Object;
use crate::pushback::Pushback;

/// What a read brings.
pub(super) type ReadOutcome<T> = Result<Arc<Timestamped<T>>, Pushback>;
type Flight<T> = BoxFuture<'static, ReadOutcome<T>>;
type Edit<T> = Arc<dyn Fn(&mut T) + Send + Sync>;

/// Reads by path. Clones share them.
pub(super) struct ReadCache<T>(Arc<Mutex<Table<T>>>);

struct Table<T> {
    /// Counts reads and writes, to tell which was first.
    sequence: u64,
    entries: BTreeMap<String, Entry<T>>,
}

struct Entry<T> {
    value: Option<Arc<Timestamped<T>>>,
    in_flight: Option<Flying<T>>,
    /// What was written while a read was under way, and may not be in it.
    edits: Vec<(u64, Edit<T>)>,
    /// What was read before this is doubtful.
    invalid_before: u64,
}

struct Flying<T> {
    sequence: u64,
    caller: Object,
    read: WeakShared<Flight<T>>,
}

/// A read to wait for.
pub(super) struct Joined<T> {
    /// After how many others it was begun.
    pub(super) sequence: u64,
    /// Whose call it is.
    pub(super) caller: Object,
    pub(super) read: Shared<Flight<T>>,
}

impl<T> Default for ReadCache<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Table {
            sequence: 0,
            entries: BTreeMap::new(),
        })))
    }
}

impl<T> Clone for ReadCache<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self {
            value: None,
            in_flight: None,
            edits: Vec::new(),
            invalid_before: 0,
        }
    }
}

impl<T: Clone + Send + Sync + 'static> ReadCache<T> {
    /// What is known, if it is new enough.
    pub(super) fn cached(&self, path: &str, fresh: MaxAge, now: Instant) -> Option<Arc<Timestamped<T>>> {
        self.with_table(|table| {
            let known = table.entries.get(path)?.value.as_ref()?;
            fresh.accepts(known.requested_at, now).then(|| known.clone())
        })
    }

    /// How many reads and writes there were.
    pub(super) fn sequence(&self) -> u64 {
        self.with_table(|table| table.sequence)
    }

    /// The read that is under way, or else the one that `begin` makes for `pilot`. It is given its number,
    /// to [`Self::land`] with.
    pub(super) fn join_read(&self, path: &str, pilot: &Object, begin: impl FnOnce(u64) -> Flight<T>) -> Joined<T> {
        self.with_table(|table| {
            table.sequence += 1;
            let entry = table.entries.entry(path.to_owned()).or_default();
            if let Some(flying) = &entry.in_flight
                && let Some(read) = flying.read.upgrade()
            {
                let (number, pilot) = (flying.sequence, flying.caller.clone());
                return Joined {
                    sequence: number,
                    caller: pilot,
                    read,
                };
            }
            let (number, pilot) = (table.sequence, pilot.clone());
            let read = begin(number).shared();
            entry.edits.clear();
            entry.in_flight = read.downgrade().map(|read| Flying {
                sequence: number,
                caller: pilot.clone(),
                read,
            });
            Joined {
                sequence: number,
                caller: pilot,
                read,
            }
        })
    }

    /// A read is over. What was written since it began is put into it.
    pub(super) fn complete_read(
        &self,
        path: &str,
        number: u64,
        read: Result<Timestamped<T>, Pushback>,
    ) -> ReadOutcome<T> {
        self.with_table(|table| {
            let entry = table.entries.entry(path.to_owned()).or_default();
            let newest = entry.in_flight.take_if(|flying| flying.sequence == number).is_some();
            let mut listed = read?;
            let edits = entry.edits.iter();
            for (_, edit) in edits.filter(|(written, _)| *written > number) {
                edit(&mut listed.value);
            }
            let listed = Arc::new(listed);
            if newest && entry.invalid_before < number {
                entry.value = Some(listed.clone());
            }
            Ok(listed)
        })
    }

    /// Something was written: what is known is changed, and what is being read will be.
    pub(super) fn edit(&self, path: &str, edit: impl Fn(&mut T) + Send + Sync + 'static) {
        self.with_table(|table| {
            table.sequence += 1;
            let Some(entry) = table.entries.get_mut(path) else {
                return;
            };
            if let Some(known) = &mut entry.value {
                edit(&mut Arc::make_mut(known).value);
            }
            let flying = entry.in_flight.as_ref();
            if flying.is_some_and(|flying| flying.read.upgrade().is_some()) {
                entry.edits.push((table.sequence, Arc::new(edit)));
            }
        });
    }

    /// Something may have been written: what was read before says nothing.
    pub(super) fn invalidate(&self, path: &str) {
        self.invalidate_where(|asked, _| asked == path);
    }

    /// The same for all paths that match, given what is known there.
    pub(super) fn invalidate_where(&self, which: impl Fn(&str, Option<&T>) -> bool) {
        self.with_table(|table| {
            table.sequence += 1;
            let number = table.sequence;
            for (path, entry) in &mut table.entries {
                let known = entry.value.as_ref().map(|known| &known.value);
                if which(path, known) {
                    (entry.value, entry.invalid_before) = (None, number);
                }
            }
            let idle = |entry: &Entry<T>| entry.value.is_none() && entry.in_flight.is_none();
            table.entries.retain(|_, entry| !idle(entry));
        });
    }

    /// An answer to a write has told what there is now.
    pub(super) fn insert(&self, path: &str, listed: Arc<Timestamped<T>>) {
        self.with_table(|table| {
            table.sequence += 1;
            let entry = table.entries.entry(path.to_owned()).or_default();
            (entry.value, entry.invalid_before) = (Some(listed), table.sequence);
        });
    }

    fn with_table<R>(&self, act: impl FnOnce(&mut Table<T>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
