//! What the passes of the controller share: who this replica is, the table in force, the sessions, and
//! what is remembered.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aplomb::version::ResourceVersion;
use aplomb::{Clock, MetaRef, ObjectKey, Trigger};
use arc_swap::ArcSwap;
use iroh::RelayUrl;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::sessions::AgentSessions;
use crate::interest::{ReferenceIndex, TableReferences};
use crate::memory::ControlState;
use crate::proxy::{PhaseHandle, ServePhase};
use crate::table::RoutingTable;
use crate::telemetry::GatewayMetrics;

/// Who this replica is, as others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// The namespace of its GatewayReplica.
    pub namespace: String,
    /// The name of its GatewayReplica.
    pub identity: String,
    /// Where its public HTTP listener is reached.
    pub listen: String,
    /// Where its public TLS listener is reached.
    pub listen_tls: Option<String>,
    /// Its iroh endpoint id, in hex.
    pub endpoint_id: String,
    /// How long after its last heartbeat it counts as gone.
    pub lease_seconds: u32,
    /// The relays that it may be told to use, beside those of the ConnectorClasses.
    pub relays: Vec<String>,
}

/// What the passes share. Clones are the same.
#[derive(Clone)]
pub(crate) struct GatewayContext {
    pub(crate) replica: Arc<ReplicaInfo>,
    pub(crate) table: Arc<ArcSwap<RoutingTable>>,
    pub(crate) sessions: Arc<dyn AgentSessions>,
    pub(crate) telemetry: GatewayMetrics,
    pub(crate) health: PhaseHandle,
    pub(crate) clock: Clock,
    pub(crate) trigger: Trigger,
    pub(crate) references: ReferenceIndex,
    state: Arc<Mutex<ControlState>>,
    leaving: Arc<AtomicBool>,
    gone: Arc<watch::Sender<bool>>,
}

/// What an office is made of.
pub(crate) struct Furniture {
    pub(crate) replica: ReplicaInfo,
    pub(crate) table: Arc<ArcSwap<RoutingTable>>,
    pub(crate) sessions: Arc<dyn AgentSessions>,
    pub(crate) telemetry: GatewayMetrics,
    pub(crate) health: PhaseHandle,
    pub(crate) clock: Clock,
    pub(crate) trigger: Trigger,
}

impl GatewayContext {
    pub(crate) fn new(furniture: Furniture) -> Self {
        Self {
            replica: Arc::new(furniture.replica),
            table: furniture.table,
            sessions: furniture.sessions,
            telemetry: furniture.telemetry,
            health: furniture.health,
            clock: furniture.clock,
            trigger: furniture.trigger,
            references: ReferenceIndex::default(),
            state: Arc::default(),
            leaving: Arc::default(),
            gone: Arc::new(watch::Sender::new(false)),
        }
    }

    /// What a pass runs for: the namespace that this replica lives in, which is there before it has said
    /// anything.
    pub(crate) fn pass_key(&self) -> ObjectKey {
        ObjectKey::new(None, &self.replica.namespace)
    }

    /// Its own GatewayReplica.
    pub(crate) fn replica_key(&self) -> ObjectKey {
        ObjectKey::new(Some(&self.replica.namespace), &self.replica.identity)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to run when an object has changed: a pass, if it matters to the table.
    pub(crate) fn affected_by(
        &self,
        kind: &'static str,
        object: MetaRef<'_>,
        matters: impl FnOnce(&TableReferences) -> bool,
    ) -> Vec<ObjectKey> {
        if !self.references.matches(matters) {
            return Vec::new();
        }
        let (key, version): (ObjectKey, ResourceVersion) = (object.key(), object.version());
        let mut memory = self.state();
        memory.schedule.request_publish(kind, key, version, Instant::now());
        vec![self.pass_key()]
    }

    /// Makes the next pass take this replica's name off the list.
    pub(crate) fn request_leave(&self) {
        self.leaving.store(true, Ordering::Release);
        self.health.advance_to(ServePhase::Draining);
        self.trigger.poke(&self.pass_key());
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// The name is off the list.
    pub(crate) fn set_left(&self) {
        self.gone.send_replace(true);
    }

    /// Resolves when the name is off the list.
    pub(crate) async fn wait_left(&self) {
        // The sender is in self.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// The relays that may be used, with those of the classes. What is not a URL is none: the operator says
    /// so of the connectors of its class.
    pub(crate) fn allowed_relays<'a>(
        &'a self,
        classes: impl Iterator<Item = &'a String>,
    ) -> BTreeSet<RelayUrl> {
        let all = self.replica.relays.iter().chain(classes);
        all.filter_map(|relay| relay.parse().ok()).collect()
    }
}
