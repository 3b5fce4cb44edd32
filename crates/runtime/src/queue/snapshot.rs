//! The contents of the queue, for inspection.

use std::hash::Hash;
use std::time::Duration;

use super::slots::KeyState;
use super::{FairQueue, Lane, RunReason, RunReasons};

/// The first keys in each state.
#[derive(Clone, Debug)]
pub struct Snapshot<K> {
    /// Running keys, the longest run first.
    pub running: Vec<RunningKey<K>>,
    /// Queued keys, by lane, the most urgent first.
    pub queued: Vec<QueuedKey<K>>,
    /// Waiting keys, the first due first.
    pub waiting: Vec<WaitingKey<K>>,
}

/// A running key.
#[derive(Clone, Debug)]
pub struct RunningKey<K> {
    /// The key.
    pub key: K,
    /// How long it has been running.
    pub running: Duration,
    /// Whether it runs again after this.
    pub again: bool,
}

/// A queued key.
#[derive(Clone, Debug)]
pub struct QueuedKey<K> {
    /// The key.
    pub key: K,
    /// The most urgent lane it is in.
    pub lane: Lane,
    /// Time since its first unserved event.
    pub waited: Duration,
    /// The reasons of its next run.
    pub reasons: RunReasons,
}

/// A key that waits for a time.
#[derive(Clone, Debug)]
pub struct WaitingKey<K> {
    /// The key.
    pub key: K,
    /// The reason of its next run.
    pub reason: RunReason,
    /// The remaining wait.
    pub remaining: Duration,
    /// Events that are kept until then.
    pub kept: RunReasons,
}

impl<K: Clone + Eq + Hash> FairQueue<K> {
    /// At most `limit` keys in each state. Reads every waiting key, so it is only for inspection.
    #[must_use]
    pub fn snapshot(&self, limit: usize, now: Duration) -> Snapshot<K> {
        Snapshot {
            running: self.running_keys(now).take(limit).collect(),
            queued: Lane::ALL
                .into_iter()
                .flat_map(|lane| self.queued_keys(lane, now))
                .take(limit)
                .collect(),
            waiting: self.waiting_keys(limit, now),
        }
    }

    fn running_keys(&self, now: Duration) -> impl Iterator<Item = RunningKey<K>> + '_ {
        self.running.iter().filter_map(move |(slot, started)| {
            let entry = self.slots.get(slot)?;
            Some(RunningKey {
                key: entry.key.clone(),
                running: now.saturating_sub(started),
                again: entry.pending.is_some(),
            })
        })
    }

    fn queued_keys(&self, lane: Lane, now: Duration) -> impl Iterator<Item = QueuedKey<K>> + '_ {
        self.lanes.iter(lane).filter_map(move |(slot, _)| {
            let entry = self.slots.get(slot)?;
            // A key that moved up is queued in both lanes.
            let unserved = entry.pending.as_ref().filter(|it| it.lane == lane)?;
            Some(QueuedKey {
                key: entry.key.clone(),
                lane,
                waited: now.saturating_sub(unserved.since),
                reasons: unserved.reasons.clone(),
            })
        })
    }

    fn waiting_keys(&self, limit: usize, now: Duration) -> Vec<WaitingKey<K>> {
        let mut due: Vec<_> = self
            .timers
            .iter()
            .filter_map(|(slot, due)| Some((due, slot, self.slots.get(slot)?)))
            .filter(|(_, _, entry)| entry.state == KeyState::Waiting)
            .collect();
        due.sort_unstable_by_key(|(due, slot, _)| (*due, *slot));
        due.truncate(limit);
        due.into_iter()
            .filter_map(|(due, _, entry)| {
                Some(WaitingKey {
                    key: entry.key.clone(),
                    reason: entry.scheduled.as_ref()?.reason,
                    remaining: due.saturating_sub(now),
                    kept: entry
                        .pending
                        .as_ref()
                        .map(|unserved| unserved.reasons.clone())
                        .unwrap_or_default(),
                })
            })
            .collect()
    }
}
