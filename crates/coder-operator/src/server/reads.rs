//! Reads that many callers share: cached results, the read in flight, and what was written since.
//!
//! A read is driven by those who wait for it; when the first of them is gone another goes on with it,
//! and when all are gone it ends. Failures go to all who waited and are not cached. A read has one
//! place in the queue; when its turn comes all waiting objects are woken, and the first reads for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aplomb::leadership::fence::Fence;
use aplomb::{ObjectKey, ObjectRef};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::{Instant, timeout_at};

use super::{Caller, MaxAge, ServerClient, Tell, Timestamped};
use crate::blocked::Pushback;
use crate::client::{CallError, CallErrorClass, CoderCall, CoderEndpoint};

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
    caller: ObjectRef,
    read: WeakShared<Flight<T>>,
}

/// A read to wait for.
pub(super) struct Joined<T> {
    /// After how many others it was begun.
    pub(super) sequence: u64,
    /// Whose call it is.
    pub(super) caller: ObjectRef,
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
    /// to [`Self::complete_read`] with.
    pub(super) fn join_read(&self, path: &str, pilot: &ObjectRef, begin: impl FnOnce(u64) -> Flight<T>) -> Joined<T> {
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

/// How long a read may take at least, whichever caller started it: others share it.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Terms that outlive the caller: a read continues for others.
pub(super) struct OwnedCaller {
    object: ObjectRef,
    bypass: bool,
    fence: Fence,
    deadline: Instant,
}

impl OwnedCaller {
    fn new(asker: &Caller<'_>) -> Self {
        Self {
            object: asker.object.clone(),
            bypass: asker.bypass,
            fence: asker.fence.clone(),
            deadline: asker.deadline.max(Instant::now() + READ_TIMEOUT),
        }
    }

    /// What the status says of the gate was heeded before.
    pub(super) fn caller(&self) -> Caller<'_> {
        Caller {
            object: &self.object,
            bypass: self.bypass,
            fence: &self.fence,
            deadline: self.deadline,
            limited: None,
        }
    }
}

/// A read that is begun.
pub(super) type ReadFuture<T> = BoxFuture<'static, Result<Timestamped<T>, Pushback>>;

impl ServerClient {
    /// What is at `path`: known and new enough, or read for all who want it now.
    pub(super) async fn read_cached<T: Clone + Send + Sync + 'static>(
        &self,
        look: &ReadCache<T>,
        asker: &Caller<'_>,
        (endpoint, path): (CoderEndpoint, &str),
        fresh: MaxAge,
        begin: impl Fn(OwnedCaller) -> ReadFuture<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let entered = look.sequence();
        loop {
            if let Some(known) = look.cached(path, fresh, Instant::now()) {
                return Ok(known);
            }
            self.check_backoff(asker)?;
            asker.check_deadline()?;
            self.0.common.waiters.remove(&self.queue_entry(path), asker.object);
            let joined = look.join_read(path, asker.object, |number| {
                let reading = begin(OwnedCaller::new(asker));
                let (look, path) = (look.clone(), path.to_owned());
                async move {
                    let read = reading.await;
                    look.complete_read(&path, number, read)
                }
                .boxed()
            });
            let number = joined.sequence;
            let listed = self.join_read(asker, (endpoint, path), joined).await?;
            // One that was begun before may have missed what this one asks about.
            let new = number > entered || matches!(fresh, MaxAge::Within(_));
            if new || fresh.accepts(listed.requested_at, Instant::now()) {
                return Ok(listed);
            }
        }
    }

    /// Waits for a read, and takes what comes of it as one's own.
    async fn join_read<T: Clone + Send + Sync + 'static>(
        &self,
        asker: &Caller<'_>,
        (endpoint, path): (CoderEndpoint, &str),
        joined: Joined<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let place = self.queue_entry(path);
        let read = timeout_at(asker.call_deadline(), joined.read).await;
        let read = read.unwrap_or_else(|_| Err(CallError::timed_out(endpoint).into()));
        let own = joined.caller == *asker.object;
        match &read {
            Err(Pushback::Later { .. }) => self.0.common.waiters.add(&place, asker.object),
            Err(Pushback::Refused(error)) if !own && error.class == CallErrorClass::Limited => {
                self.record_refusal(asker.object);
            }
            Err(Pushback::Refused(error)) if error.status.is_none() => {}
            Ok(_) | Err(Pushback::Refused(_)) if !own => self.record_success(asker.object),
            Ok(_) | Err(Pushback::Refused(_)) => {}
        }
        read
    }

    /// What one call says, for all.
    pub(super) async fn read_value<T: Clone + Send + Sync + 'static>(
        &self,
        look: &ReadCache<T>,
        asker: &Caller<'_>,
        fresh: MaxAge,
        ask: CoderCall<T>,
    ) -> Result<Arc<Timestamped<T>>, Pushback> {
        let (path, ask) = (ask.path.clone(), Arc::new(ask));
        let at = (ask.endpoint, path.as_str());
        let begin = |owned: OwnedCaller| {
            let (server, ask) = (self.clone(), ask.clone());
            async move { server.read_shared(&owned.caller(), &ask).await }.boxed()
        };
        self.read_cached(look, asker, at, fresh, begin).await
    }

    /// Makes the call of a look, in the look's own place in the queue, and tells those who were sent away.
    pub(super) async fn read_shared<T>(
        &self,
        asker: &Caller<'_>,
        ask: &CoderCall<T>,
    ) -> Result<Timestamped<T>, Pushback> {
        let purse = self.limits_for(asker).await?;
        let place = self.queue_entry(&ask.path);
        let read = self.send_counted(&purse, asker, ask, &place).await;
        let failure = read.as_ref().err().map(Pushback::class);
        if failure.is_none_or(|class| class == Some(CallErrorClass::Missing)) {
            self.0.common.waiters.notify_waiters(&place);
        }
        read
    }

    /// What stands in a queue for all who look at `path`.
    pub(super) fn queue_entry(&self, path: &str) -> ObjectRef {
        queue_entry(&self.0.fingerprint, path)
    }
}

/// The kind of what stands in a queue for many.
const READ_KIND: &str = "look";

pub(super) struct CallWaiters {
    notify: Tell,
    reads: Mutex<BTreeMap<ObjectRef, BTreeSet<ObjectRef>>>,
}

/// What stands in a queue for all who look at `path` with one token.
pub(super) fn queue_entry(fingerprint: &str, path: &str) -> ObjectRef {
    ObjectRef {
        kind: READ_KIND.into(),
        key: ObjectKey::new(Some(fingerprint), path),
    }
}

impl CallWaiters {
    pub(super) fn new(tell: Tell) -> Self {
        Self {
            notify: tell,
            reads: Mutex::default(),
        }
    }

    /// `who` waits for a look.
    pub(super) fn add(&self, look: &ObjectRef, who: &ObjectRef) {
        self.with_reads(|looks| looks.entry(look.clone()).or_default().insert(who.clone()));
    }

    /// `who` is there, and need not be told.
    pub(super) fn remove(&self, look: &ObjectRef, who: &ObjectRef) {
        self.with_reads(|looks| {
            if let Some(waiting) = looks.get_mut(look) {
                waiting.remove(who);
            }
        });
    }

    /// The turn of an object or a read has come, or a read has ended.
    pub(super) fn notify_waiters(&self, who: &ObjectRef) {
        if &*who.kind != READ_KIND {
            return (self.notify)(who);
        }
        let waiting = self.with_reads(|looks| looks.remove(who)).unwrap_or_default();
        waiting.iter().for_each(|who| (self.notify)(who));
    }

    /// `who` no longer waits for anything. Returns the reads without waiting callers.
    pub(super) fn remove_object(&self, who: &ObjectRef) -> Vec<ObjectRef> {
        self.with_reads(|looks| {
            let alone = looks.extract_if(.., |_, waiting| waiting.remove(who) && waiting.is_empty());
            alone.map(|(look, _)| look).collect()
        })
    }

    fn with_reads<T>(&self, act: impl FnOnce(&mut BTreeMap<ObjectRef, BTreeSet<ObjectRef>>) -> T) -> T {
        act(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn object(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "CoderProvisioner".into(),
            key: ObjectKey::new(Some("team"), name),
        }
    }

    #[test]
    fn all_waiters_of_a_read_are_notified_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let tell = move |who: &ObjectRef| heard.lock().expect("no panic").push(who.clone());
        let waiters = CallWaiters::new(Arc::new(tell));
        let look = queue_entry("abc", "/api/v2/entitlements");
        for name in ["red", "blue", "red", "green"] {
            waiters.add(&look, &object(name));
        }
        assert_eq!(waiters.remove_object(&object("green")), []);
        waiters.notify_waiters(&look);
        waiters.notify_waiters(&look);
        waiters.notify_waiters(&object("red"));
        let names = ["blue", "red", "red"].map(object);
        assert_eq!(*told.lock().expect("no panic"), names);
    }

    #[test]
    fn a_read_without_waiters_leaves_the_queue() {
        let waiters = CallWaiters::new(Arc::new(|_| {}));
        let look = queue_entry("abc", "/api/v2/entitlements");
        waiters.add(&look, &object("red"));
        assert_eq!(waiters.remove_object(&object("blue")), []);
        assert_eq!(waiters.remove_object(&object("red")), [look]);
    }
}
