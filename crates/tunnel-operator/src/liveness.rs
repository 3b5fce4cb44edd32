//! Whether a connector is online, from what was heard of it and when. Pure: it reads no clock, keeps
//! nothing and writes nothing.
//!
//! A sign of life is good for one lease. So no gap between heartbeats that is shorter than the lease
//! shows, whatever its pattern, and silence shows when the lease is over.

use std::time::Duration;

use aplomb_api::tunnel::reasons;
use tokio::time::Instant;

/// How long every gateway must be without a session until that alone counts: an agent that moves to
/// another network is back sooner.
pub(crate) const SESSION_LOST_AFTER: Duration = Duration::from_secs(3);
/// Of the lease, how long before its end a proof is asked for: time for it to be tried.
const LATE_FRACTION: u32 = 6;

/// What is known of the Lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSignal {
    /// Until when its last heartbeat is good; `None` if it is the one that was expired already when
    /// this process began.
    pub(crate) until: Option<Instant>,
    /// Nobody holds it: the agent went on purpose.
    pub(crate) released: bool,
}

/// Everything that is known of a connector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LivenessSignals {
    pub(crate) now: Instant,
    /// Whether it was online, as last said.
    pub(crate) was_online: Option<bool>,
    /// It was heard of at some time.
    pub(crate) known: bool,
    /// How long a sign of life is good for.
    pub(crate) duration: Duration,
    pub(crate) lease: Option<LeaseSignal>,
    /// When a proof last came through.
    pub(crate) last_proof: Option<Instant>,
    /// Since when no gateway has a session to it.
    pub(crate) lost_since: Option<Instant>,
}

/// What follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LivenessDecision {
    pub(crate) online: bool,
    pub(crate) reason: &'static str,
    /// Its heartbeat is late: a proof would show whether it is there.
    pub(crate) late: bool,
    /// When this may change although nothing happens.
    pub(crate) recheck_after: Option<Duration>,
}

/// Whether a connector is online.
pub(crate) fn decide_liveness(signs: &LivenessSignals) -> LivenessDecision {
    let LivenessSignals { now, duration, .. } = *signs;
    if signs.lease.is_some_and(|lease| lease.released) {
        return offline(reasons::RELEASED);
    }
    let lease = signs.lease.and_then(|lease| lease.until);
    let lease = lease.filter(|until| now < *until);
    let lost = signs.lost_since();
    // One that was offline has to have a session before it is online again.
    if let Some(since) = lost
        && (lease.is_none() || signs.was_online == Some(false) || since + SESSION_LOST_AFTER <= now)
    {
        return offline(reasons::SESSION_LOST);
    }
    if let Some(until) = lease {
        let warning = until - duration / LATE_FRACTION;
        let late = warning <= now;
        let next = if late { until } else { warning };
        let next = lost.map_or(next, |since| next.min(since + SESSION_LOST_AFTER));
        return online(reasons::RENEWED, late, next - now);
    }
    let proof = signs.last_proof.map(|proven| proven + duration);
    match proof.filter(|until| now < *until) {
        Some(until) => online(reasons::SESSION_ALIVE, false, until - now),
        None if signs.known => offline(reasons::EXPIRED),
        None => offline(reasons::NEVER_SEEN),
    }
}

impl LivenessSignals {
    /// Since when it is lost, unless it was proven since.
    fn lost_since(&self) -> Option<Instant> {
        let proven = |since: &Instant| self.last_proof.is_some_and(|proven| proven >= *since);
        self.lost_since.filter(|since| !proven(since))
    }
}

fn online(reason: &'static str, late: bool, again: Duration) -> LivenessDecision {
    LivenessDecision {
        online: true,
        reason,
        late,
        recheck_after: Some(again),
    }
}

fn offline(reason: &'static str) -> LivenessDecision {
    LivenessDecision {
        online: false,
        reason,
        late: false,
        recheck_after: None,
    }
}

#[cfg(test)]
#[path = "liveness_tests.rs"]
mod tests;
