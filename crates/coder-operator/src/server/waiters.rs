//! Who waits for a look that many share. The look has one place in the queue of its account, and
//! when its turn comes all of them are woken: the first to come reads for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use aplomb::ObjectKey;

use super::Tell;
use crate::object::Object;

/// The kind of what stands in a queue for many.
const LOOK: &str = "look";

pub(super) struct CallWaiters {
    tell: Tell,
    looks: Mutex<BTreeMap<Object, BTreeSet<Object>>>,
}

/// What stands in a queue for all who look at `path` with one token.
pub(super) fn place(fingerprint: &str, path: &str) -> Object {
    Object {
        kind: LOOK,
        key: ObjectKey::new(Some(fingerprint), path),
    }
}

impl CallWaiters {
    pub(super) fn new(tell: Tell) -> Self {
        Self {
            tell,
            looks: Mutex::default(),
        }
    }

    /// `who` waits for a look.
    pub(super) fn add(&self, look: &Object, who: &Object) {
        self.looks(|looks| looks.entry(look.clone()).or_default().insert(who.clone()));
    }

    /// `who` is there, and need not be told.
    pub(super) fn remove(&self, look: &Object, who: &Object) {
        self.looks(|looks| {
            if let Some(waiting) = looks.get_mut(look) {
                waiting.remove(who);
            }
        });
    }

    /// The turn of an object or a read has come, or a read has ended.
    pub(super) fn tell(&self, who: &Object) {
        if who.kind != LOOK {
            return (self.tell)(who);
        }
        let waiting = self.looks(|looks| looks.remove(who)).unwrap_or_default();
        waiting.iter().for_each(|who| (self.tell)(who));
    }

    /// `who` no longer waits for anything. Returns the reads without waiting callers.
    pub(super) fn forget(&self, who: &Object) -> Vec<Object> {
        self.looks(|looks| {
            let alone =
                looks.extract_if(.., |_, waiting| waiting.remove(who) && waiting.is_empty());
            alone.map(|(look, _)| look).collect()
        })
    }

    fn looks<T>(&self, act: impl FnOnce(&mut BTreeMap<Object, BTreeSet<Object>>) -> T) -> T {
        act(&mut self.looks.lock().unwrap_or_else(PoisonError::into_inner))
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
    fn all_who_wait_for_a_look_are_told_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let tell = move |who: &Object| heard.lock().expect("no panic").push(who.clone());
        let waiters = CallWaiters::new(Arc::new(tell));
        let look = place("abc", "/api/v2/entitlements");
        for name in ["red", "blue", "red", "green"] {
            waiters.add(&look, &object(name));
        }
        assert_eq!(waiters.forget(&object("green")), []);
        waiters.tell(&look);
        waiters.tell(&look);
        waiters.tell(&object("red"));
        let names = ["blue", "red", "red"].map(object);
        assert_eq!(*told.lock().expect("no panic"), names);
    }

    #[test]
    fn a_look_that_nobody_waits_for_leaves_the_queue() {
        let waiters = CallWaiters::new(Arc::new(|_| {}));
        let look = place("abc", "/api/v2/entitlements");
        waiters.add(&look, &object("red"));
        assert_eq!(waiters.forget(&object("blue")), []);
        assert_eq!(waiters.forget(&object("red")), [look]);
    }
}
