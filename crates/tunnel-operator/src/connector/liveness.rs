//! Whether a connector is online, from the signals seen and their times. Pure: reads no clock and writes nothing.
//!
//! Each signal keeps the connector online for one lease duration. A shorter gap between heartbeats therefore
//! never takes it offline, and a longer one always does.

use std::time::Duration;

use aplomb_api::tunnel::reasons;
use tokio::time::Instant;

/// How long every gateway must be without a session before that alone takes the connector offline. An agent
/// that moves to another network reconnects sooner.
pub(crate) const SESSION_LOST_AFTER: Duration = Duration::from_secs(3);
/// Fraction of the lease (1/n) before its end at which a proof is requested, so that there is time for it.
const LATE_FRACTION: u32 = 6;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSignal {
    /// When its last heartbeat expires; `None` if it had already expired when this process started.
    pub(crate) until: Option<Instant>,
    /// The holder is empty: the agent shut down gracefully.
    pub(crate) released: bool,
}

/// The signals about one connector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LivenessSignals {
    pub(crate) now: Instant,
    /// Whether the status reports it online.
    pub(crate) was_online: Option<bool>,
    pub(crate) known: bool,
    /// How long a signal is valid.
    pub(crate) duration: Duration,
    pub(crate) lease: Option<LeaseSignal>,
    /// When a proof last succeeded.
    pub(crate) last_proof: Option<Instant>,
    /// Since when no gateway has had a session to it.
    pub(crate) lost_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LivenessDecision {
    pub(crate) online: bool,
    pub(crate) reason: &'static str,
    /// The heartbeat is late: a proof would show whether the agent is still there.
    pub(crate) late: bool,
    /// When the decision may change without a new signal.
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
    // A connector that was offline needs a session before it is online again.
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
    /// Since when its sessions are lost, unless a proof succeeded later.
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
mod tests;
