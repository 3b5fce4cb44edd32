//! What every pass of every controller here shares.

use std::sync::Arc;

use aplomb::{Clock, ObjectKey, Trigger};

use crate::state::TunnelState;
use crate::probe::TunnelProber;
use crate::heartbeat::HeartbeatTracker;
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
    pub(crate) lease_heartbeats: HeartbeatTracker,
    /// Heartbeats of gateways.
    pub(crate) replica_heartbeats: HeartbeatTracker,
    /// What proofs have shown of connectors.
    pub(crate) sessions: ProvenSessions,
    /// What is remembered of tunnels.
    pub(crate) state: TunnelState,
    /// Proves tunnels.
    pub(crate) prober: TunnelProber,
    /// Runs an HTTPProxy.
    pub(crate) proxy_trigger: Trigger,
    /// Runs a Connector.
    pub(crate) connector_trigger: Trigger,
    /// Where it is counted.
    pub(crate) telemetry: TunnelMetrics,
    /// Wall time.
    pub(crate) clock: Clock,
}

impl TunnelContext {
    /// A tunnel is gone.
    pub(crate) fn on_tunnel_deleted(&self, key: &ObjectKey) {
        self.state.on_tunnel_deleted(key);
        self.telemetry.remove(key);
    }
}

impl TunnelContext {
    /// A gateway is gone, and with it what every tunnel was proven through.
    pub(crate) fn on_replica_deleted(&self, key: &ObjectKey) {
        self.replica_heartbeats.remove(key);
        for key in self.state.on_replica_deleted() {
            self.proxy_trigger.poke(&key);
        }
    }
}

/// A memory of sessions that has tunnels proven at once when the heartbeat of their connector is late.
pub(crate) fn proven_sessions(
    memory: &TunnelState,
    proxies: &Trigger,
    connectors: &Trigger,
) -> ProvenSessions {
    let (memory, proxies) = (memory.clone(), proxies.clone());
    ProvenSessions::new(connectors, move |connector| {
        for key in memory.expire_proofs(connector) {
            proxies.poke(&key);
        }
    })
}
