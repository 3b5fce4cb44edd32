//! The context that all controllers of this crate share.

use std::sync::Arc;

use aplomb::{Clock, ObjectKey, Trigger};

use crate::heartbeat::HeartbeatTracker;
use crate::probe::TunnelProber;
use crate::probe::proven_sessions::ProvenSessions;
use crate::state::TunnelState;
use crate::telemetry::TunnelMetrics;

/// Shared context of a pass. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct TunnelContext {
    /// The namespace of the gateways.
    pub(crate) namespace: Arc<str>,
    /// Base domain for classes that set none.
    pub(crate) domain: Arc<str>,
    /// Heartbeats of connectors, by the key of their Lease, which equals the key of the Connector.
    pub(crate) lease_heartbeats: HeartbeatTracker,
    /// Heartbeats of gateways.
    pub(crate) replica_heartbeats: HeartbeatTracker,
    /// Successful proofs by connector.
    pub(crate) sessions: ProvenSessions,
    /// State of tunnels between passes.
    pub(crate) state: TunnelState,
    /// Proves tunnels.
    pub(crate) prober: TunnelProber,
    /// Triggers a reconcile of an HTTPProxy.
    pub(crate) proxy_trigger: Trigger,
    /// Triggers a reconcile of a Connector.
    pub(crate) connector_trigger: Trigger,
    pub(crate) telemetry: TunnelMetrics,
    pub(crate) clock: Clock,
}

impl TunnelContext {
    pub(crate) fn on_tunnel_deleted(&self, key: &ObjectKey) {
        self.state.on_tunnel_deleted(key);
        self.telemetry.remove(key);
    }

    /// Drops the state of a deleted gateway and all proofs through it.
    pub(crate) fn on_replica_deleted(&self, key: &ObjectKey) {
        self.replica_heartbeats.remove(key);
        for key in self.state.on_replica_deleted() {
            self.proxy_trigger.enqueue(&key);
        }
    }
}

/// Tracks proven sessions. When a connector's heartbeat is late, its tunnels are proven at once.
pub(crate) fn proven_sessions(memory: &TunnelState, proxies: &Trigger, connectors: &Trigger) -> ProvenSessions {
    let (memory, proxies) = (memory.clone(), proxies.clone());
    ProvenSessions::new(connectors, move |connector| {
        for key in memory.expire_proofs(connector) {
            proxies.enqueue(&key);
        }
    })
}
