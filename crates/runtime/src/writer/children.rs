//! The children of an owner that have existed, as far as this process can determine.
//!
//! A missing child that existed may have been deleted with its owner, whose watch need not
//! show that yet: only a read from the server can decide. A child that never existed needs no such read.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::{ObjectKey, ObjectRef};

/// Owners are dropped when they are deleted; this bounds the rest after a missed deletion.
const MAX_OWNERS: usize = 262_144;

/// The children of every owner that this process has run a pass for.
#[derive(Debug, Default)]
pub(super) struct Children(Mutex<BTreeMap<ObjectKey, ChildHistory>>);

#[derive(Debug)]
struct ChildHistory {
    uid: String,
    /// In another term another replica may have created children.
    term: u64,
    /// Whether every child that can have existed is recorded here.
    complete: bool,
    /// Digests, to avoid a second copy of names; two equal ones cost one read.
    digests: BTreeSet<u64>,
}

impl Children {
    /// A pass over the owner `key` begins, in a term of leadership. `new`: it is the first pass ever.
    pub(super) fn begin_pass(&self, key: &ObjectKey, uid: &str, term: u64, new: bool) {
        let mut all = self.lock();
        let known = |past: &ChildHistory| past.uid == uid && past.term == term;
        if all.get(key).is_some_and(known) {
            return;
        }
        let past = ChildHistory {
            uid: uid.to_owned(),
            term,
            complete: new,
            digests: BTreeSet::new(),
        };
        all.insert(key.clone(), past);
        while all.len() > MAX_OWNERS {
            all.pop_first();
        }
    }

    /// The owner has this child.
    pub(super) fn record(&self, key: &ObjectKey, uid: &str, child: &ObjectRef) {
        if let Some(past) = self.lock().get_mut(key).filter(|past| past.uid == uid) {
            past.digests.insert(digest(child));
        }
    }

    /// Whether the owner has had this child, or may have had.
    pub(super) fn may_have_existed(&self, key: &ObjectKey, uid: &str, child: &ObjectRef) -> bool {
        let all = self.lock();
        let past = all.get(key).filter(|past| past.uid == uid);
        past.is_none_or(|past| !past.complete || past.digests.contains(&digest(child)))
    }

    /// The owner was deleted.
    pub(super) fn remove(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, ChildHistory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(child: &ObjectRef) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&child.kind, &child.key).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new(Some("team"), "a")
    }

    fn child(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "ConfigMap".into(),
            key: ObjectKey::new(Some("team"), name),
        }
    }

    #[test]
    fn new_owner_has_had_only_recorded_children() {
        let children = Children::default();
        children.begin_pass(&key(), "u1", 1, true);
        assert!(!children.may_have_existed(&key(), "u1", &child("x")));
        children.record(&key(), "u1", &child("x"));
        children.begin_pass(&key(), "u1", 1, false);
        assert!(children.may_have_existed(&key(), "u1", &child("x")));
        assert!(!children.may_have_existed(&key(), "u1", &child("y")));
    }

    #[test]
    fn an_owner_from_before_the_start_may_have_had_any() {
        let children = Children::default();
        assert!(children.may_have_existed(&key(), "u1", &child("x")), "not known");
        children.begin_pass(&key(), "u1", 1, false);
        assert!(children.may_have_existed(&key(), "u1", &child("x")));
    }

    #[test]
    fn in_another_term_an_owner_may_have_had_any() {
        let children = Children::default();
        children.begin_pass(&key(), "u1", 1, true);
        assert!(!children.may_have_existed(&key(), "u1", &child("x")));
        children.begin_pass(&key(), "u1", 2, false);
        assert!(children.may_have_existed(&key(), "u1", &child("x")));
    }

    #[test]
    fn an_owner_that_took_the_name_of_another_is_new() {
        let children = Children::default();
        children.begin_pass(&key(), "u1", 1, true);
        children.record(&key(), "u1", &child("x"));
        children.begin_pass(&key(), "u2", 1, true);
        assert!(!children.may_have_existed(&key(), "u2", &child("x")));
        children.record(&key(), "u1", &child("y"));
        assert!(!children.may_have_existed(&key(), "u2", &child("y")));
        children.remove(&key());
        assert!(children.may_have_existed(&key(), "u2", &child("y")));
    }
}
