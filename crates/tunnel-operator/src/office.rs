//! The context that all controllers of this crate share.

use std::sync::Arc;

use aplomb::{Clock, ObjectKey, Trigger};

use crate::memory::TunnelState;
use crate::prove::TunnelProber;
use crate::pulse::HeartbeatTracker;
use crate::sessions::ProvenSessions;
use crate::telemetry::TunnelMetrics;

/// Shared context of a pass. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct TunnelContext {
    /// The namespace of the gateways.
    pub(crate) namespace: Arc<str>,
    /// Base domain for classes that set none.
    pub(crate) domain: Arc<str>,
    /// Heartbeats of connectors, by the key of their Lease, which equals the key of the Connector.
    pub(crate) leases: HeartbeatTracker,
    /// Heartbeats of gateways.
    pub(crate) replicas: HeartbeatTracker,
    /// Successful proofs by connector.
    pub(crate) sessions: ProvenSessions,
    /// State of tunnels between passes.
    pub(crate) memory: TunnelState,
    /// Proves tunnels.
    pub(crate) prover: TunnelProber,
    /// Triggers a reconcile of an HTTPProxy.
    pub(crate) proxies: Trigger,
    /// Triggers a reconcile of a Connector.
    pub(crate) connectors: Trigger,
    /// Metrics.
    pub(crate) telemetry: TunnelMetrics,
    /// Wall-clock time.
    pub(crate) clock: Clock,
}

impl TunnelContext {
    /// Drops the state of a deleted tunnel.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.memory.forget(key);
        self.telemetry.forget(key);
    }
}

impl TunnelContext {
    /// Drops the state of a deleted gateway and all proofs through it.
    pub(crate) fn replica_gone(&self, key: &ObjectKey) {
        self.replicas.forget(key);
        for key in self.memory.replica_gone() {
            self.proxies.poke(&key);
        }
    }
}

/// Tracks proven sessions. When a connector's heartbeat is late, its tunnels are proven at once.
pub(crate) fn sessions(
    memory: &TunnelState,
    proxies: &Trigger,
    connectors: &Trigger,
) -> ProvenSessions {
    let (memory, proxies) = (memory.clone(), proxies.clone());
    ProvenSessions::new(connectors, move |connector| {
        for key in memory.expire(connector) {
            proxies.poke(&key);
        }
    })
}
