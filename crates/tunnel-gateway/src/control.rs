//! The control side as a whole: the engine, and the handle by which the process tells it to leave. It
//! opens no socket of its own, so that it runs in virtual time too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb::admin::Readiness;
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, ObjectKey, Tasks, Telemetry, Trigger};
use arc_swap::ArcSwap;
use tokio::time::timeout;

use crate::sessions::AgentSessions;
use crate::controller;
use crate::office::{Furniture, GatewayContext, ReplicaInfo};
use crate::proxy::{PhaseHandle, ServePhase};
use crate::table::RoutingTable;
use crate::telemetry::GatewayMetrics;

/// How long this replica tries to take its name off the list before it goes without.
const DELETE_TIMEOUT: Duration = Duration::from_secs(3);

/// What a test replaces.
pub struct GatewayDeps {
    /// The sessions with agents.
    pub sessions: Arc<dyn AgentSessions>,
    /// What tells that a session was lost or found.
    pub trigger: Trigger,
    /// The table in force.
    pub table: Arc<ArcSwap<RoutingTable>>,
    /// Whether traffic is wanted.
    pub health: PhaseHandle,
    /// Wall time.
    pub clock: Clock,
    /// Where tasks run; the current runtime unless set.
    pub tasks: Option<Tasks>,
    /// Where the runtime counts.
    pub telemetry: Telemetry,
    /// Where the gateway counts.
    pub gateway: GatewayMetrics,
}

impl std::fmt::Debug for GatewayDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The control side of one replica. Clones are the same.
#[derive(Clone)]
pub struct ControlHandle(GatewayContext);

impl ControlHandle {
    /// The engine of the replica at `place`, ready to run with any client.
    #[must_use]
    pub fn engine(
        client: kube::Client,
        place: ReplicaInfo,
        admin: Option<SocketAddr>,
        parts: GatewayDeps,
    ) -> (Engine, Self) {
        let (health, gateway) = (parts.health.clone(), parts.gateway.clone());
        let office = GatewayContext::new(Furniture {
            replica: place,
            table: parts.table,
            sessions: parts.sessions,
            telemetry: parts.gateway,
            health: parts.health,
            clock: parts.clock.clone(),
            trigger: parts.trigger,
        });
        let engine = Engine::new(controller::NAME, client).settings(|set| {
            set.admin = admin;
            set.readiness = Readiness::new(move || unready_reason(health.phase()));
            set.metrics = vec![MetricsSource::new(move |registry| {
                gateway.register(registry)
            })];
            set.telemetry = parts.telemetry;
            set.clock = parts.clock;
            set.tasks = parts.tasks;
        });
        let engine = engine.controller(controller::controller(&office));
        (engine, Self(office))
    }

    /// Takes this replica's name off the list, so that nobody sends it anything more; gives up after a
    /// few seconds.
    pub async fn delete_replica(&self) {
        self.0.request_leave();
        if timeout(DELETE_TIMEOUT, self.0.wait_left()).await.is_err() {
            tracing::warn!("Cannot say that this replica goes: it will be missed instead");
        }
    }
}

impl std::fmt::Debug for ControlHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Control").field(&self.0.replica).finish()
    }
}

/// What to poke when a session of the replica in `namespace` is lost or found.
#[must_use]
pub fn pass_key(namespace: &str) -> ObjectKey {
    ObjectKey::new(None, namespace)
}

fn unready_reason(phase: ServePhase) -> Option<String> {
    match phase {
        ServePhase::Serving => None,
        ServePhase::Starting => Some("the first routing table is not complete".to_owned()),
        ServePhase::Draining | ServePhase::Stopped => Some("it goes away".to_owned()),
    }
}
