//! Heartbeats, timed by the clock of this process. A `renewTime` is only checked for changes, never for age,
//! so that the clocks of agents and gateways do not matter.
//!
//! This module records heartbeats; `liveness` and the prober decide what missing ones mean.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aplomb::key::ResourceVersion;
use aplomb::{ObjectKey, View};
use aplomb_api::tunnel::GatewayReplica;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use crate::views::{LeaseFields, LeaseView};

/// Maximum extension of deadlines after a time in which this process could not see heartbeats. Half a lease
/// at least, because agents that could not renew meanwhile need time to do so.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// The heartbeat in an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// When it was renewed, by the writer's clock. Only compared with other values of the same object.
    pub(crate) renewed: Option<Timestamp>,
    /// How long it is valid.
    pub(crate) lease: Duration,
    /// The holder; empty after a release.
    pub(crate) holder: Option<String>,
}

/// An object with a heartbeat.
pub(crate) trait HasHeartbeat: View {
    fn heartbeat(&self) -> Heartbeat;
}

impl LeaseFields {
    fn heartbeat(&self) -> Heartbeat {
        let holder = self.holder_identity.clone();
        Heartbeat {
            renewed: self.renew_time.as_ref().map(|time| time.0),
            lease: seconds(self.lease_duration_seconds.unwrap_or_default()),
            holder: holder.filter(|holder| !holder.is_empty()),
        }
    }
}

impl HasHeartbeat for LeaseView {
    fn heartbeat(&self) -> Heartbeat {
        self.spec.heartbeat()
    }
}

impl HasHeartbeat for Lease {
    fn heartbeat(&self) -> Heartbeat {
        let spec = self.spec.clone().unwrap_or_default();
        LeaseFields {
            holder_identity: spec.holder_identity,
            lease_duration_seconds: spec.lease_duration_seconds,
            renew_time: spec.renew_time,
        }
        .heartbeat()
    }
}

impl HasHeartbeat for GatewayReplica {
    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            renewed: self.spec.renew_time.as_ref().map(|time| time.0),
            lease: seconds(self.spec.lease_duration_seconds),
            holder: Some(self.spec.endpoint_id.clone()),
        }
    }
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// The last heartbeat of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatRecord {
    /// When it was seen, by our clock.
    pub(crate) seen_at: Instant,
    pub(crate) heartbeat: Heartbeat,
    /// It existed before the first observation and has not changed since.
    pub(crate) unchanged_since_start: bool,
    /// Extended deadline.
    grace_until: Option<Instant>,
    uid: String,
    version: ResourceVersion,
}

impl HeartbeatRecord {
    /// When it expires without another heartbeat.
    pub(crate) fn expires_at(&self) -> Instant {
        let until = self.seen_at + self.heartbeat.lease;
        self.grace_until.map_or(until, |forgiven| forgiven.max(until))
    }

    /// A watch that lags behind a read returns heartbeats that were already recorded.
    fn is_newer_than(&self, version: &ResourceVersion) -> bool {
        self.version != *version && self.version.includes(version) == Some(true)
    }
}

/// The heartbeats of the objects of one kind. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeartbeatTracker(Arc<Mutex<BTreeMap<ObjectKey, HeartbeatRecord>>>);

impl HeartbeatTracker {
    /// Records the current state of an object; may be repeated. Called by predicates, which see every change,
    /// and by readers of a cache, which has objects from before the first change.
    ///
    /// An object seen for the first time counts as renewed now, because the age of its heartbeat depends on
    /// the writer's clock. The error is at most one lease: after a restart a dead object stays alive that
    /// long, and a live one is never taken for dead.
    ///
    /// Returns `true` for the first heartbeat of an object, and for one that had expired.
    pub(crate) fn record(&self, object: &impl HasHeartbeat) -> bool {
        let (meta, beat) = (object.meta(), object.heartbeat());
        let (key, now) = (meta.key(), Instant::now());
        let mut all = self.lock();
        let known = all.get_mut(&key).filter(|seen| seen.uid == meta.uid);
        if let Some(seen) = known {
            if seen.is_newer_than(&meta.version()) {
                return false;
            }
            seen.version = meta.version();
            if seen.heartbeat.renewed == beat.renewed {
                seen.heartbeat = beat;
                return false;
            }
            let news = seen.unchanged_since_start || seen.expires_at() <= now;
            seen.heartbeat = beat;
            (seen.seen_at, seen.unchanged_since_start, seen.grace_until) = (now, false, None);
            return news;
        }
        let seen = HeartbeatRecord {
            seen_at: now,
            heartbeat: beat,
            unchanged_since_start: true,
            grace_until: None,
            uid: meta.uid.to_owned(),
            version: meta.version(),
        };
        all.insert(key, seen);
        true
    }

    /// For [`aplomb::Predicate::comparing`]: records `new` and returns whether nothing but a routine heartbeat changed.
    pub(crate) fn is_plain_heartbeat<T: HasHeartbeat>(&self, old: &T, new: &T) -> bool {
        let news = self.record(new);
        let (old, new) = (old.heartbeat(), new.heartbeat());
        !news && (old.lease, old.holder) == (new.lease, new.holder)
    }

    /// The last heartbeat of `key`.
    pub(crate) fn last_heartbeat(&self, key: &ObjectKey) -> Option<HeartbeatRecord> {
        self.lock().get(key).cloned()
    }

    /// Whether a gateway is alive at `now`. One that existed before this process has half a lease to renew:
    /// it renews three times per lease, and a dead one must not delay the others for longer.
    pub(crate) fn is_live(&self, replica: &GatewayReplica, now: Instant) -> bool {
        self.record(replica);
        let seen = self.last_heartbeat(&View::meta(replica).key());
        seen.is_some_and(|seen| match seen.unchanged_since_start {
            true => now < seen.seen_at + seen.heartbeat.lease / 2,
            false => now < seen.expires_at(),
        })
    }

    /// When the next of those alive at `now` expires without another heartbeat.
    pub(crate) fn next_expiry(&self, now: Instant) -> Option<Instant> {
        let all = self.lock();
        let ends = all.values().map(HeartbeatRecord::expires_at);
        ends.filter(|until| *until > now).min()
    }

    /// Extends the deadline of `key` because its heartbeats cannot be seen: the API server does not respond,
    /// or the watch is down.
    pub(crate) fn extend_grace(&self, key: &ObjectKey) {
        if let Some(seen) = self.lock().get_mut(key) {
            seen.grace_until = Some(Instant::now() + GRACE_PERIOD.min(seen.heartbeat.lease / 2));
        }
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, HeartbeatRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;

    fn lease(renewed: &str, holder: &str) -> LeaseView {
        let lease = json!({
            "metadata": { "name": "laptop", "namespace": "default", "uid": "1" },
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 30,
                "renewTime": format!("2026-01-01T{renewed}.000000Z"),
            },
        });
        serde_json::from_value(lease).expect("a Lease")
    }

    fn key() -> ObjectKey {
        ObjectKey::new(Some("default"), "laptop")
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_is_filtered_and_timed_by_our_clock() {
        let (pulses, began) = (HeartbeatTracker::default(), Instant::now());
        let beats = ["00:00:00", "00:00:10", "09:00:00"].map(|at| lease(at, "a"));
        pulses.record(&beats[0]);
        pulses.record(&beats[1]);
        advance(SECONDS(10)).await;
        assert!(pulses.is_plain_heartbeat(&beats[1], &beats[2]));
        let seen = pulses.last_heartbeat(&key()).expect("recorded");
        assert_eq!((seen.seen_at, seen.unchanged_since_start), (began + SECONDS(10), false));
        assert_eq!(seen.expires_at(), began + SECONDS(40));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_change_is_not_a_heartbeat_however_often_it_is_read() {
        let (pulses, began) = (HeartbeatTracker::default(), Instant::now());
        pulses.record(&lease("00:00:00", "a"));
        advance(SECONDS(20)).await;
        pulses.record(&lease("00:00:00", "a"));
        let seen = pulses.last_heartbeat(&key()).expect("recorded");
        assert_eq!((seen.seen_at, seen.unchanged_since_start), (began, true));
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_heartbeat_that_arrives_later_is_ignored() {
        let (pulses, began) = (HeartbeatTracker::default(), Instant::now());
        let mut beats = ["00:00:00", "00:00:10"].map(|at| lease(at, "a"));
        for (version, beat) in beats.iter_mut().enumerate() {
            let at = json!({ "name": "laptop", "namespace": "default", "uid": "1",
                "resourceVersion": version.to_string() });
            beat.metadata = serde_json::from_value(at).expect("metadata");
            pulses.record(beat);
        }
        advance(SECONDS(20)).await;
        assert!(!pulses.record(&beats[0]));
        assert_eq!(pulses.last_heartbeat(&key()).expect("recorded").seen_at, began);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_and_another_holder_are_changes() {
        let pulses = HeartbeatTracker::default();
        let (held, other) = (lease("00:00:00", "a"), lease("00:00:10", "b"));
        assert!(!pulses.is_plain_heartbeat(&held, &other));
        assert!(!pulses.is_plain_heartbeat(&other, &lease("00:00:10", "")));
        assert_eq!(pulses.last_heartbeat(&key()).expect("recorded").heartbeat.holder, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_of_a_dead_object_is_a_change() {
        let pulses = HeartbeatTracker::default();
        let beats = ["00:00:00", "00:00:10", "00:01:00"].map(|at| lease(at, "a"));
        pulses.record(&beats[0]);
        assert!(!pulses.is_plain_heartbeat(&beats[0], &beats[1]), "the first change");
        advance(SECONDS(30)).await;
        assert!(!pulses.is_plain_heartbeat(&beats[1], &beats[2]));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_tolerated_while_the_watch_is_down() {
        let (pulses, began) = (HeartbeatTracker::default(), Instant::now());
        pulses.record(&lease("00:00:00", "a"));
        advance(SECONDS(29)).await;
        pulses.extend_grace(&key());
        let until = || pulses.last_heartbeat(&key()).map(|seen| seen.expires_at());
        assert_eq!(until(), Some(began + SECONDS(44)));
        pulses.record(&lease("00:00:29", "a"));
        assert_eq!(until(), Some(began + SECONDS(59)));
    }
}
