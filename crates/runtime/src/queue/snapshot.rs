//! What is in the queue, for people.

use std::hash::Hash;
use std::time::Duration;

use super::slots::KeyState;
use super::{FairQueue, Lane, RunReason, RunReasons};

/// The first keys in each state.
#[derive(Clone, Debug)]
pub struct Snapshot<K> {
    /// Those that run, the longest run first.
    pub running: Vec<RunningKey<K>>,
    /// Those in line, by lane, the most urgent first.
    pub queued: Vec<QueuedKey<K>>,
    /// Those that wait, the first due first.
    pub waiting: Vec<WaitingKey<K>>,
}

/// A key that runs.
#[derive(Clone, Debug)]
pub struct RunningKey<K> {
    /// Which.
    pub key: K,
    /// For how long.
    pub running: Duration,
    /// Whether it runs again after this.
    pub again: bool,
}

/// A key in line.
#[derive(Clone, Debug)]
pub struct QueuedKey<K> {
    /// Which.
    pub key: K,
    /// The most urgent lane it is in.
    pub lane: Lane,
    /// For how long an event of it has not been served.
    pub waited: Duration,
    /// Why it is to run.
    pub reasons: RunReasons,
}

/// A key that waits for a time.
#[derive(Clone, Debug)]
pub struct WaitingKey<K> {
    /// Which.
    pub key: K,
    /// What for.
    pub reason: RunReason,
    /// For how much longer.
    pub remaining: Duration,
    /// Events that are kept until then.
    pub kept: RunReasons,
}

impl<K: Clone + Eq + Hash> FairQueue<K> {
    /// At most `limit` keys in each state. Costs a look at every waiting key, so it is for people.
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
            // A key that moved up has a place in both lanes.
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
