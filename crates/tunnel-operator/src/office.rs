//! What every pass of every controller here shares.

use std::sync::Arc;

use aplomb::{Clock, Key, Poke};

use crate::memory::Memory;
use crate::prove::Prover;
use crate::pulse::Pulses;
use crate::sessions::Sessions;
use crate::telemetry::Tunnels;

/// The surroundings of a pass. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    /// The namespace of the gateways.
    pub(crate) namespace: Arc<str>,
    /// The base domain where a class names none.
    pub(crate) domain: Arc<str>,
    /// Heartbeats of connectors, by the key of their Lease, which is theirs.
    pub(crate) leases: Pulses,
    /// Heartbeats of gateways.
    pub(crate) replicas: Pulses,
    /// What proofs have shown of connectors.
    pub(crate) sessions: Sessions,
    /// What is remembered of tunnels.
    pub(crate) memory: Memory,
    /// Proves tunnels.
    pub(crate) prover: Prover,
    /// Runs an HTTPProxy.
    pub(crate) proxies: Poke,
    /// Runs a Connector.
    pub(crate) connectors: Poke,
    /// Where it is counted.
    pub(crate) telemetry: Tunnels,
    /// Wall time.
    pub(crate) clock: Clock,
}

impl Office {
    /// A tunnel is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.memory.forget(key);
        self.telemetry.forget(key);
    }
}

impl Office {
    /// A gateway is gone, and with it what every tunnel was proven through.
    pub(crate) fn replica_gone(&self, key: &Key) {
        self.replicas.forget(key);
        for key in self.memory.replica_gone() {
            self.proxies.poke(&key);
        }
    }
}

/// A memory of sessions that has tunnels proven at once when the heartbeat of their connector is late.
pub(crate) fn sessions(memory: &Memory, proxies: &Poke, connectors: &Poke) -> Sessions {
    let (memory, proxies) = (memory.clone(), proxies.clone());
    Sessions::new(connectors, move |connector| {
        for key in memory.expire(connector) {
            proxies.poke(&key);
        }
    })
}
