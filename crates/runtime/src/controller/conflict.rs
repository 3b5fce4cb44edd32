//! When a key runs again after a conflict. Pure.
//!
//! A conflict means that another writer was first, not that anything is broken. The key waits until
//! its own cache has the version that won; waiting longer gains nothing. If the other writer keeps
//! writing, an immediate retry loses every time. So from the second conflict in a row on, the
//! key waits for a pause as long as a pass takes. If the cache shows no newer version, the key does not
//! wait long: it reads the object itself and runs, soon the first time and later each time.
//! No wait exceeds the limit, which is computed so that the *write* happens within it.
//!
//! Conflicts and failure backoff are independent: a conflict neither advances nor reads a backoff.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::key::{ObjectKey, ObjectRef, ResourceVersion};

/// How long a key waits after a conflict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConflictPolicy {
    /// Maximum wait, even if the cache does not have the winning version.
    pub limit: Duration,
}

impl Default for ConflictPolicy {
    fn default() -> Self {
        Self {
            limit: Duration::from_secs(1),
        }
    }
}

/// The shortest and the longest pause to wait for.
const QUIET_BOUNDS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// One key's open conflict.
#[derive(Clone, Debug)]
pub(crate) struct ConflictWait {
    /// The object that both wrote.
    pub(crate) object: Option<ObjectRef>,
    /// The version that the losing write had read.
    read: Option<ResourceVersion>,
    met: Duration,
    took: Duration,
    streak: u32,
    passed: Option<Duration>,
}

impl ConflictWait {
    /// A conflict at `now`, at the end of a pass that took `took`; the `streak`-th in a row.
    pub(crate) fn new(
        object: Option<ObjectRef>,
        read: Option<ResourceVersion>,
        streak: u32,
        now: Duration,
        took: Duration,
    ) -> Self {
        Self {
            object,
            read,
            met: now,
            took,
            streak,
            passed: None,
        }
    }

    /// The cache shows the object at `version` now. An opaque version that differs counts as newer.
    pub(crate) fn observed_version(&mut self, version: &ResourceVersion, now: Duration) {
        let newer = match &self.read {
            Some(read) => read.includes(version) != Some(true),
            None => true,
        };
        if newer {
            self.passed = Some(now);
        }
    }

    /// Whether the cache has a newer version than the one that lost.
    pub(crate) fn has_newer_version(&self) -> bool {
        self.passed.is_some()
    }

    /// When the key runs again, as far as known.
    pub(crate) fn resume_at(&self, patience: ConflictPolicy) -> Duration {
        // At most half of the limit is reserved for the pass: a slower pass cannot meet the limit anyway.
        let margin = (self.took * 3 / 2).min(patience.limit / 2).max(patience.limit / 20);
        let latest = self.met + (patience.limit - margin);
        match self.passed {
            None => (self.met + self.read_delay(patience)).min(latest),
            Some(at) if self.streak <= 1 => at.min(latest),
            Some(at) => (at + self.quiet_period()).min(latest),
        }
    }

    /// How long to wait for the cache before the object is read instead.
    fn read_delay(&self, patience: ConflictPolicy) -> Duration {
        patience.limit / 10 * 2u32.saturating_pow(self.streak - 1)
    }

    fn quiet_period(&self) -> Duration {
        (self.took * 3 / 2).clamp(QUIET_BOUNDS.0, QUIET_BOUNDS.1)
    }
}

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

    const PATIENCE: ConflictPolicy = ConflictPolicy {
        limit: Duration::from_secs(1),
    };

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn contest(streak: u32) -> ConflictWait {
        ConflictWait::new(None, Some(ResourceVersion::Number(5)), streak, ms(100), ms(60))
    }

    #[test]
    fn the_version_that_won_ends_the_wait() {
        let mut contest = contest(1);
        contest.observed_version(&ResourceVersion::Number(6), ms(130));
        assert_eq!(contest.resume_at(PATIENCE), ms(130));
    }

    #[test]
    fn the_version_that_lost_does_not() {
        let mut contest = contest(1);
        contest.observed_version(&ResourceVersion::Number(5), ms(130));
        assert!(!contest.has_newer_version());
        assert!(contest.resume_at(PATIENCE) > ms(130));
    }

    #[test]
    fn wait_for_a_silent_cache_doubles_up_to_the_limit() {
        let waits = [1, 2, 3, 6, 1_000].map(|streak| contest(streak).resume_at(PATIENCE) - ms(100));
        assert_eq!(waits, [100, 200, 400, 910, 910].map(ms));
    }

    #[test]
    fn repeated_writes_of_others_are_waited_out_up_to_the_limit() {
        let mut contest = contest(2);
        for at in [120, 170, 220] {
            contest.observed_version(&ResourceVersion::Number(at), ms(at));
            assert_eq!(contest.resume_at(PATIENCE), ms(at + 90));
        }
        contest.observed_version(&ResourceVersion::Number(1_000), ms(1_005));
        assert_eq!(contest.resume_at(PATIENCE), ms(1_010));
    }

    #[test]
    fn the_write_lands_within_the_limit_whatever_the_pass_takes() {
        for took in [0, 1, 60, 200, 333] {
            let contest = ConflictWait::new(None, None, 3, ms(0), ms(took));
            assert!(contest.resume_at(PATIENCE) + ms(took) <= PATIENCE.limit, "{took}");
        }
    }

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
