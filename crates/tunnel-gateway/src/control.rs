//! The control side: the engine, and the handle with which the process shuts it down. It opens no socket, so
//! that it also runs in virtual time.

mod act;
pub mod context;
mod controller;
pub mod decide;
pub mod inputs;
mod observe;
mod publish_schedule;
mod references;
mod state;
pub mod views;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb::admin::Readiness;
use aplomb::telemetry::MetricsSource;
use aplomb::{Clock, Engine, ObjectKey, Tasks, Telemetry, Trigger};
use arc_swap::ArcSwap;
use tokio::time::timeout;

use crate::control::context::{GatewayContext, ReplicaInfo};
use crate::proxy::{PhaseHandle, ServePhase};
use crate::routing::RoutingTable;
use crate::sessions::AgentSessions;
use crate::telemetry::GatewayMetrics;

const DELETE_TIMEOUT: Duration = Duration::from_secs(3);

/// Dependencies that tests replace.
pub struct GatewayDeps {
    pub sessions: Arc<dyn AgentSessions>,
    /// Triggered when a session is lost or restored.
    pub trigger: Trigger,
    pub table: Arc<ArcSwap<RoutingTable>>,
    pub health: PhaseHandle,
    pub clock: Clock,
    /// Runtime for tasks; the current one unless set.
    pub tasks: Option<Tasks>,
    pub telemetry: Telemetry,
    pub gateway: GatewayMetrics,
}

impl std::fmt::Debug for GatewayDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The control side of one replica. Clones share the state.
#[derive(Clone)]
pub struct ControlHandle(GatewayContext);

impl ControlHandle {
    /// Builds the engine of the replica at `place`. It can run with any client.
    #[must_use]
    pub fn engine(
        client: kube::Client,
        place: ReplicaInfo,
        admin: Option<SocketAddr>,
        parts: GatewayDeps,
    ) -> (Engine, Self) {
        let office = GatewayContext::new(place, &parts);
        let (health, gateway) = (parts.health, parts.gateway);
        let engine = Engine::new(controller::NAME, client).configure(|set| {
            set.admin = admin;
            set.readiness = Readiness::new(move || unready_reason(health.phase()));
            set.metrics = vec![MetricsSource::new(move |registry| gateway.register(registry))];
            set.telemetry = parts.telemetry;
            set.clock = parts.clock;
            set.tasks = parts.tasks;
        });
        let engine = engine.controller(controller::controller(&office));
        (engine, Self(office))
    }

    /// Deletes this replica's GatewayReplica so that it gets no more traffic. Gives up after a few seconds.
    pub async fn delete_replica(&self) {
        self.0.request_leave();
        if timeout(DELETE_TIMEOUT, self.0.wait_left()).await.is_err() {
            tracing::warn!("Failed to delete GatewayReplica on shutdown; it will expire");
        }
    }
}

impl std::fmt::Debug for ControlHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Control").field(&self.0.replica).finish()
    }
}

/// The key to trigger when a session of the replica in `namespace` is lost or restored.
#[must_use]
pub fn pass_key(namespace: &str) -> ObjectKey {
    ObjectKey::new(None, namespace)
}

fn unready_reason(phase: ServePhase) -> Option<String> {
    match phase {
        ServePhase::Serving => None,
        ServePhase::Starting => Some("the first routing table is not complete".to_owned()),
        ServePhase::Draining | ServePhase::Stopped => Some("the gateway is shutting down".to_owned()),
    }
}
