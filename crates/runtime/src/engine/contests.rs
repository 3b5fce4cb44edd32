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
    by_key: BTreeMap<ObjectKey, ConflictWait>,
    by_object: BTreeSet<(ObjectRef, ObjectKey)>,
    by_end: BTreeSet<(Duration, ObjectKey)>,
}

impl ConflictWaits {
    pub(crate) fn new(patience: ConflictPolicy) -> Self {
        Self {
            patience,
            by_key: BTreeMap::new(),
            by_object: BTreeSet::new(),
            by_end: BTreeSet::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// `key` lost a conflict.
    pub(crate) fn insert(&mut self, key: ObjectKey, contest: ConflictWait) {
        self.remove(&key);
        if let Some(object) = &contest.object {
            self.by_object.insert((object.clone(), key.clone()));
        }
        self.by_end.insert((contest.resume_at(self.patience), key.clone()));
        self.by_key.insert(key, contest);
    }

    /// `key` runs again, or its object was deleted.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<ConflictWait> {
        let contest = self.by_key.remove(key)?;
        self.by_end.remove(&(contest.resume_at(self.patience), key.clone()));
        if let Some(object) = &contest.object {
            self.by_object.remove(&(object.clone(), key.clone()));
        }
        Some(contest)
    }

    /// A cache shows `object` at `version`. Returns the keys for which that is the first newer version.
    pub(crate) fn observed_version(
        &mut self,
        object: &ObjectRef,
        version: &ResourceVersion,
        now: Duration,
    ) -> Vec<ObjectKey> {
        let first = (object.clone(), ObjectKey::new(None, ""));
        let after = self.by_object.range(first..);
        let keys: Vec<ObjectKey> = after
            .take_while(|(other, _)| other == object)
            .map(|(_, key)| key.clone())
            .collect();
        let mut settled = Vec::new();
        for key in keys {
            let Some(mut contest) = self.remove(&key) else {
                continue;
            };
            let open = !contest.has_newer_version();
            contest.observed_version(version, now);
            if open && contest.has_newer_version() {
                settled.push(key.clone());
            }
            self.insert(key, contest);
        }
        settled
    }

    /// When the first of them ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        self.by_end.first().map(|(end, _)| *end)
    }

    /// The keys whose wait has ended by `now`, each returned once. They stay until their key runs.
    pub(crate) fn take_expired(&mut self, now: Duration) -> Vec<ObjectKey> {
        let ended = self.by_end.extract_if(.., |(end, _)| *end <= now);
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

    fn conflict_on(name: &str) -> ConflictWait {
        let read = Some(ResourceVersion::Number(5));
        ConflictWait::new(Some(object(name)), read, 1, Duration::ZERO, Duration::ZERO)
    }

    #[test]
    fn only_keys_in_conflict_on_the_object_are_released_once() {
        let mut contests = ConflictWaits::new(ConflictPolicy::default());
        for (key_of, lost_on) in [("a", "x"), ("b", "x"), ("c", "y")] {
            contests.insert(key(key_of), conflict_on(lost_on));
        }
        let now = Duration::from_millis(10);
        assert!(
            contests
                .observed_version(&object("x"), &ResourceVersion::Number(5), now)
                .is_empty()
        );
        let told = contests.observed_version(&object("x"), &ResourceVersion::Number(6), now);
        assert_eq!(told, [key("a"), key("b")]);
        assert!(
            contests
                .observed_version(&object("x"), &ResourceVersion::Number(7), now)
                .is_empty()
        );
        assert_eq!(contests.take_expired(now), [key("a"), key("b")]);
        contests.remove(&key("a"));
        contests.remove(&key("b"));
        assert!(contests.next_end() > Some(now), "c still waits");
    }
}
