//! Who waits for a look that many share. The look has one place in the queue of its account, and
//! when its turn comes all of them are woken: the first to come reads for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use aplomb::ObjectKey;

use super::Tell;
use crate::object::Object;

/// The kind of what stands in a queue for many.
const READ_KIND: &str = "look";

pub(super) struct CallWaiters {
    notify: Tell,
    reads: Mutex<BTreeMap<Object, BTreeSet<Object>>>,
}

/// What stands in a queue for all who look at `path` with one token.
pub(super) fn queue_entry(fingerprint: &str, path: &str) -> Object {
    Object {
        kind: READ_KIND,
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
    pub(super) fn add(&self, look: &Object, who: &Object) {
        self.with_reads(|looks| looks.entry(look.clone()).or_default().insert(who.clone()));
    }

    /// `who` is there, and need not be told.
    pub(super) fn remove(&self, look: &Object, who: &Object) {
        self.with_reads(|looks| {
            if let Some(waiting) = looks.get_mut(look) {
                waiting.remove(who);
            }
        });
    }

    /// The turn of an object or a read has come, or a read has ended.
    pub(super) fn notify_waiters(&self, who: &Object) {
        if who.kind != READ_KIND {
            return (self.notify)(who);
        }
        let waiting = self.with_reads(|looks| looks.remove(who)).unwrap_or_default();
        waiting.iter().for_each(|who| (self.notify)(who));
    }

    /// `who` no longer waits for anything. Returns the reads without waiting callers.
    pub(super) fn remove_object(&self, who: &Object) -> Vec<Object> {
        self.with_reads(|looks| {
            let alone = looks.extract_if(.., |_, waiting| waiting.remove(who) && waiting.is_empty());
            alone.map(|(look, _)| look).collect()
        })
    }

    fn with_reads<T>(&self, act: impl FnOnce(&mut BTreeMap<Object, BTreeSet<Object>>) -> T) -> T {
        act(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn object(name: &str) -> Object {
        Object {
            kind: "CoderProvisioner",
            key: ObjectKey::new(Some("team"), name),
        }
    }

    #[test]
    fn all_waiters_of_a_read_are_notified_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let tell = move |who: &Object| heard.lock().expect("no panic").push(who.clone());
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
