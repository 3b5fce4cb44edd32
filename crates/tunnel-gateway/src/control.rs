//! The control side as a whole: the engine, and the handle by which the process tells it to leave. It
//! opens no socket of its own, so that it runs in virtual time too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb::admin::Readiness;
use aplomb::telemetry::Metrics;
use aplomb::{Clock, Engine, Key, Poke, Tasks, Telemetry};
use arc_swap::ArcSwap;
use tokio::time::timeout;

use crate::client::Sessions;
use crate::controller;
use crate::office::{Furniture, Office, Place};
use crate::serve::{Health, Phase};
use crate::table::Table;
use crate::telemetry::GatewayTelemetry;

/// How long this replica tries to take its name off the list before it goes without.
const WITHDRAW: Duration = Duration::from_secs(3);

/// What a test replaces.
pub struct Parts {
    /// The sessions with agents.
    pub sessions: Arc<dyn Sessions>,
    /// What tells that a session was lost or found.
    pub poke: Poke,
    /// The table in force.
    pub table: Arc<ArcSwap<Table>>,
    /// Whether traffic is wanted.
    pub health: Health,
    /// Wall time.
    pub clock: Clock,
    /// Where tasks run; the current runtime unless set.
    pub tasks: Option<Tasks>,
    /// Where the runtime counts.
    pub telemetry: Telemetry,
    /// Where the gateway counts.
    pub gateway: GatewayTelemetry,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// The control side of one replica. Clones are the same.
#[derive(Clone)]
pub struct Control(Office);

impl Control {
    /// The engine of the replica at `place`, ready to run with any client.
    #[must_use]
    pub fn engine(
        client: kube::Client,
        place: Place,
        admin: Option<SocketAddr>,
        parts: Parts,
    ) -> (Engine, Self) {
        let (health, gateway) = (parts.health.clone(), parts.gateway.clone());
        let office = Office::new(Furniture {
            place,
            table: parts.table,
            sessions: parts.sessions,
            telemetry: parts.gateway,
            health: parts.health,
            clock: parts.clock.clone(),
            poke: parts.poke,
        });
        let engine = Engine::new(controller::NAME, client).settings(|set| {
            set.admin = admin;
            set.readiness = Readiness::new(move || unready(health.phase()));
            set.metrics = vec![Metrics::new(move |registry| gateway.register(registry))];
            set.telemetry = parts.telemetry;
            set.clock = parts.clock;
            set.tasks = parts.tasks;
        });
        let engine = engine.controller(controller::controller(&office));
        (engine, Self(office))
    }

    /// Takes this replica's name off the list, so that nobody sends it anything more; gives up after a
    /// few seconds.
    pub async fn leave(&self) {
        self.0.leave();
        if timeout(WITHDRAW, self.0.left()).await.is_err() {
            tracing::warn!("Cannot say that this replica goes: it will be missed instead");
        }
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Control").field(&self.0.place).finish()
    }
}

/// What to poke when a session of the replica in `namespace` is lost or found.
#[must_use]
pub fn home(namespace: &str) -> Key {
    Key::new(None, namespace)
}

fn unready(phase: Phase) -> Option<String> {
    match phase {
        Phase::Serving => None,
        Phase::Starting => Some("the first routing table is not complete".to_owned()),
        Phase::Draining | Phase::Stopped => Some("it goes away".to_owned()),
    }
}
