//! When each connector last proved, through a gateway, that it is there: written by the prover, read
//! when a Connector is judged. A memory between the two and nothing else: it judges nobody and sends
//! nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aplomb::{ObjectKey, Trigger};
use tokio::time::Instant;

/// What the tunnels of a connector have shown of it. Clones are the same.
#[derive(Clone)]
pub(crate) struct ProvenSessions {
    known: Arc<Mutex<ProofTimes>>,
    /// Runs a Connector for which a proof was waited for.
    connector_trigger: Trigger,
    /// Proves the tunnels of a connector at once.
    request_probe: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}

#[derive(Default)]
struct ProofTimes {
    proven: BTreeMap<ObjectKey, Instant>,
    /// Those that a proof would bring back.
    awaited: BTreeSet<ObjectKey>,
}

impl ProvenSessions {
    /// A memory that runs `connectors`, and has tunnels proven by `prove`, which must not block.
    pub(crate) fn new(
        connectors: &Trigger,
        prove: impl Fn(&ObjectKey) + Send + Sync + 'static,
    ) -> Self {
        Self {
            known: Arc::default(),
            connector_trigger: connectors.clone(),
            request_probe: Arc::new(prove),
        }
    }

    /// A proof signed by this connector came through a gateway at `at`. Only one that is waited for
    /// runs the Connector: the others would say what is known.
    pub(crate) fn record_proof(&self, connector: &ObjectKey, at: Instant) {
        let awaited = {
            let mut known = self.lock();
            known.proven.insert(connector.clone(), at);
            known.awaited.remove(connector)
        };
        if awaited {
            self.connector_trigger.poke(connector);
        }
    }

    /// When it last proved itself.
    pub(crate) fn last_proof(&self, connector: &ObjectKey) -> Option<Instant> {
        self.lock().proven.get(connector).copied()
    }

    /// The next proof of this connector changes what is thought of it, so that it must be run then.
    pub(crate) fn await_proof(&self, connector: &ObjectKey) {
        self.lock().awaited.insert(connector.clone());
    }

    /// Asks for a proof now: the heartbeat of this connector is late.
    pub(crate) fn request_probe(&self, connector: &ObjectKey) {
        self.await_proof(connector);
        (self.request_probe)(connector);
    }

    /// Lets go of a connector that is gone.
    pub(crate) fn remove(&self, connector: &ObjectKey) {
        let mut known = self.lock();
        known.proven.remove(connector);
        known.awaited.remove(connector);
    }

    fn lock(&self) -> MutexGuard<'_, ProofTimes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProvenSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}
