//! The open conflicts of a controller, by key, by object and by end time. Pure.
//!
//! Lookups cost the logarithm of their number: thousands may be open while another writer updates all
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::contest::{ConflictPolicy, ConflictWait};
use crate::key::{ObjectKey, ObjectRef};
use crate::version::ResourceVersion;

/// Open conflicts.
#[derive(Debug)]
pub(crate) struct ConflictWaits {
    patience: ConflictPolicy,
    open: BTreeMap<ObjectKey, ConflictWait>,
    on: BTreeSet<(ObjectRef, ObjectKey)>,
    ends: BTreeSet<(Duration, ObjectKey)>,
}

impl ConflictWaits {
    pub(crate) fn new(patience: ConflictPolicy) -> Self {
        Self {
            patience,
            open: BTreeMap::new(),
            on: BTreeSet::new(),
            ends: BTreeSet::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// `key` lost a conflict.
    pub(crate) fn insert(&mut self, key: ObjectKey, contest: ConflictWait) {
        self.remove(&key);
        if let Some(object) = &contest.object {
            self.on.insert((object.clone(), key.clone()));
        }
        self.ends
            .insert((contest.resume(self.patience), key.clone()));
        self.open.insert(key, contest);
    }

    /// `key` runs again, or its object was deleted.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<ConflictWait> {
        let contest = self.open.remove(key)?;
        self.ends
            .remove(&(contest.resume(self.patience), key.clone()));
        if let Some(object) = &contest.object {
            self.on.remove(&(object.clone(), key.clone()));
        }
        Some(contest)
    }

    /// A cache shows `object` at `version`. Returns the keys for which that is the first newer version.
    pub(crate) fn saw(
        &mut self,
        object: &ObjectRef,
        version: &ResourceVersion,
        now: Duration,
    ) -> Vec<ObjectKey> {
        let first = (object.clone(), ObjectKey::new(None, ""));
        let after = self.on.range(first..);
        let keys: Vec<ObjectKey> = after
            .take_while(|(other, _)| other == object)
            .map(|(_, key)| key.clone())
            .collect();
        let mut settled = Vec::new();
        for key in keys {
            let Some(mut contest) = self.remove(&key) else {
                continue;
            };
            let open = !contest.passed();
            contest.saw(version, now);
            if open && contest.passed() {
                settled.push(key.clone());
            }
            self.insert(key, contest);
        }
        settled
    }

    /// When the first of them ends.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The keys whose wait has ended by `now`, each returned once. They stay until their key runs.
    pub(crate) fn end(&mut self, now: Duration) -> Vec<ObjectKey> {
        let ended = self.ends.extract_if(.., |(end, _)| *end <= now);
        ended.map(|(_, key)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "ConfigMap".into(),
            key: ObjectKey::new(Some("n"), name),
        }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    fn lost(name: &str) -> ConflictWait {
        let read = Some(ResourceVersion::Number(5));
        ConflictWait::new(Some(object(name)), read, 1, Duration::ZERO, Duration::ZERO)
    }

    #[test]
    fn only_those_who_lost_on_the_object_are_told_and_only_once() {
        let mut contests = ConflictWaits::new(ConflictPolicy::default());
        for (key_of, lost_on) in [("a", "x"), ("b", "x"), ("c", "y")] {
            contests.insert(key(key_of), lost(lost_on));
        }
        let now = Duration::from_millis(10);
        assert!(
            contests
                .saw(&object("x"), &ResourceVersion::Number(5), now)
                .is_empty()
        );
        let told = contests.saw(&object("x"), &ResourceVersion::Number(6), now);
        assert_eq!(told, [key("a"), key("b")]);
        assert!(
            contests
                .saw(&object("x"), &ResourceVersion::Number(7), now)
                .is_empty()
        );
        assert_eq!(contests.end(now), [key("a"), key("b")]);
        contests.remove(&key("a"));
        contests.remove(&key("b"));
        assert!(contests.next() > Some(now), "c still waits");
    }
}
