//! Context shared by the controller's passes: the identity of this replica, the current table, the sessions,
//! and state kept between passes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aplomb::key::ResourceVersion;
use aplomb::{Clock, MetaRef, ObjectKey, Trigger};
use arc_swap::ArcSwap;
use iroh::RelayUrl;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::control::GatewayDeps;
use crate::control::references::{ReferenceIndex, TableReferences};
use crate::control::state::ControlState;
use crate::proxy::{PhaseHandle, ServePhase};
use crate::routing::RoutingTable;
use crate::sessions::AgentSessions;
use crate::telemetry::GatewayMetrics;

/// The identity and addresses of this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaInfo {
    pub namespace: String,
    pub identity: String,
    pub listen: String,
    pub listen_tls: Option<String>,
    /// Its iroh endpoint id, in hex.
    pub endpoint_id: String,
    /// How long after its last heartbeat it counts as dead.
    pub lease_seconds: u32,
    /// Relays that it may use, in addition to those of the ConnectorClasses.
    pub relays: Vec<String>,
}

/// Shared context of the passes. Clones share the state.
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

impl GatewayContext {
    pub(crate) fn new(replica: ReplicaInfo, deps: &GatewayDeps) -> Self {
        Self {
            replica: Arc::new(replica),
            table: deps.table.clone(),
            sessions: deps.sessions.clone(),
            telemetry: deps.gateway.clone(),
            health: deps.health.clone(),
            clock: deps.clock.clone(),
            trigger: deps.trigger.clone(),
            references: ReferenceIndex::default(),
            state: Arc::default(),
            leaving: Arc::default(),
            gone: Arc::new(watch::Sender::new(false)),
        }
    }

    /// The object that a pass reconciles: the namespace of this replica, which exists before its own record.
    pub(crate) fn pass_key(&self) -> ObjectKey {
        ObjectKey::new(None, &self.replica.namespace)
    }

    pub(crate) fn replica_key(&self) -> ObjectKey {
        ObjectKey::new(Some(&self.replica.namespace), &self.replica.identity)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event handler of an object: triggers a pass if the object matters to the table.
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

    /// Makes the next pass delete this replica's record.
    pub(crate) fn request_leave(&self) {
        self.leaving.store(true, Ordering::Release);
        self.health.advance_to(ServePhase::Draining);
        self.trigger.enqueue(&self.pass_key());
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Records that the GatewayReplica is deleted.
    pub(crate) fn set_left(&self) {
        self.gone.send_replace(true);
    }

    pub(crate) async fn wait_left(&self) {
        // The sender is in self.
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// The relays that may be used, including those of the classes. Invalid URLs are skipped; the operator
    /// reports them on the connectors of the class.
    pub(crate) fn allowed_relays<'a>(&'a self, classes: impl Iterator<Item = &'a String>) -> BTreeSet<RelayUrl> {
        let all = self.replica.relays.iter().chain(classes);
        all.filter_map(|relay| relay.parse().ok()).collect()
    }
}
