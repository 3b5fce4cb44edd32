//! When each connector last proved through a gateway that it is online. The prober writes it, the Connector
//! controller reads it. It makes no decisions and sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aplomb::{ObjectKey, Trigger};
use tokio::time::Instant;

/// The last proof of each connector. Clones share the state.
#[derive(Clone)]
pub(crate) struct ProvenSessions {
    known: Arc<Mutex<ProofTimes>>,
    /// Triggers a reconcile of a Connector that waits for a proof.
    connector_trigger: Trigger,
    /// Starts proofs of a connector's tunnels at once.
    request_probe: Arc<dyn Fn(&ObjectKey) + Send + Sync>,
}

#[derive(Default)]
struct ProofTimes {
    proven: BTreeMap<ObjectKey, Instant>,
    /// Connectors that a proof would bring back online.
    awaited: BTreeSet<ObjectKey>,
}

impl ProvenSessions {
    /// Triggers `connectors`, and starts proofs with `prove`, which must not block.
    pub(crate) fn new(connectors: &Trigger, prove: impl Fn(&ObjectKey) + Send + Sync + 'static) -> Self {
        Self {
            known: Arc::default(),
            connector_trigger: connectors.clone(),
            request_probe: Arc::new(prove),
        }
    }

    /// Records a proof that this connector signed at `at`. Only an awaited one triggers a reconcile of the
    /// Connector; others change nothing.
    pub(crate) fn record_proof(&self, connector: &ObjectKey, at: Instant) {
        let awaited = {
            let mut known = self.lock();
            known.proven.insert(connector.clone(), at);
            known.awaited.remove(connector)
        };
        if awaited {
            self.connector_trigger.enqueue(connector);
        }
    }

    pub(crate) fn last_proof(&self, connector: &ObjectKey) -> Option<Instant> {
        self.lock().proven.get(connector).copied()
    }

    /// The next proof of this connector changes its status, so that it must trigger a reconcile.
    pub(crate) fn await_proof(&self, connector: &ObjectKey) {
        self.lock().awaited.insert(connector.clone());
    }

    /// Requests a proof now, because the heartbeat of this connector is late.
    pub(crate) fn request_probe(&self, connector: &ObjectKey) {
        self.await_proof(connector);
        (self.request_probe)(connector);
    }

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
