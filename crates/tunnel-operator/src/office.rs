//! What every pass of every controller here shares.

use std::sync::Arc;

use aplomb::{Clock, ObjectKey, Trigger};

use crate::memory::TunnelState;
use crate::prove::TunnelProber;
use crate::pulse::HeartbeatTracker;
use crate::sessions::ProvenSessions;
use crate::telemetry::TunnelMetrics;

/// The surroundings of a pass. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct TunnelContext {
    /// The namespace of the gateways.
    pub(crate) namespace: Arc<str>,
    /// The base domain where a class names none.
    pub(crate) domain: Arc<str>,
    /// Heartbeats of connectors, by the key of their Lease, which is theirs.
    pub(crate) leases: HeartbeatTracker,
    /// Heartbeats of gateways.
    pub(crate) replicas: HeartbeatTracker,
    /// What proofs have shown of connectors.
    pub(crate) sessions: ProvenSessions,
    /// What is remembered of tunnels.
    pub(crate) memory: TunnelState,
    /// Proves tunnels.
    pub(crate) prover: TunnelProber,
    /// Runs an HTTPProxy.
    pub(crate) proxies: Trigger,
    /// Runs a Connector.
    pub(crate) connectors: Trigger,
    /// Where it is counted.
    pub(crate) telemetry: TunnelMetrics,
    /// Wall time.
    pub(crate) clock: Clock,
}

impl TunnelContext {
    /// A tunnel is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.memory.forget(key);
        self.telemetry.forget(key);
    }
}

impl TunnelContext {
    /// A gateway is gone, and with it what every tunnel was proven through.
    pub(crate) fn replica_gone(&self, key: &ObjectKey) {
        self.replicas.forget(key);
        for key in self.memory.replica_gone() {
            self.proxies.enqueue(&key);
        }
    }
}

/// A memory of sessions that has tunnels proven at once when the heartbeat of their connector is late.
pub(crate) fn sessions(
    memory: &TunnelState,
    proxies: &Trigger,
    connectors: &Trigger,
) -> ProvenSessions {
    let (memory, proxies) = (memory.clone(), proxies.clone());
    ProvenSessions::new(connectors, move |connector| {
        for key in memory.expire(connector) {
            proxies.enqueue(&key);
        }
    })
}
