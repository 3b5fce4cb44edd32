//! A gateway without sockets: a simulated process with fake sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex};

use aplomb::{Clock, ObjectKey, Tasks, Telemetry, Trigger};
use aplomb_api::tunnel::LostSession;
use aplomb_simulation::{Component, Process};
use aplomb_tunnel_gateway::control::context::ReplicaInfo;
use aplomb_tunnel_gateway::control::inputs::SessionTarget;
use aplomb_tunnel_gateway::control::{ControlHandle, GatewayDeps, pass_key};
use aplomb_tunnel_gateway::proxy::PhaseHandle;
use aplomb_tunnel_gateway::routing::RoutingTable;
use aplomb_tunnel_gateway::sessions::AgentSessions;
use aplomb_tunnel_gateway::telemetry::GatewayMetrics;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;

use crate::lab::{Lab, NAMESPACE};

/// A replica. Its state is that of the current process.
pub struct Replica {
    pub component: Component,
    current: Arc<Mutex<Option<ReplicaRun>>>,
}

#[derive(Clone)]
struct ReplicaRun {
    table: Arc<ArcSwap<RoutingTable>>,
    sessions: FakeSessions,
    control: ControlHandle,
    health: PhaseHandle,
}

/// Sessions that are up unless a test changes that.
#[derive(Clone, Default)]
struct FakeSessions {
    targets: Arc<Mutex<BTreeMap<ObjectKey, SessionTarget>>>,
    down: Arc<Mutex<BTreeSet<ObjectKey>>>,
    trigger: Trigger,
}

impl AgentSessions for FakeSessions {
    fn set_targets(&self, wanted: &BTreeMap<ObjectKey, SessionTarget>) {
        self.targets.lock().unwrap().clone_from(wanted);
    }

    fn lost_sessions(&self) -> Vec<LostSession> {
        let (wanted, down) = (self.targets.lock().unwrap(), self.down.lock().unwrap());
        let lost = wanted.iter().filter(|(key, _)| down.contains(*key));
        lost.map(|(key, wanted)| LostSession {
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: key.name.to_string(),
            session: wanted.target.session.clone(),
        })
        .collect()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Replica {
    pub fn start(lab: &Lab, name: &str) -> Self {
        let now: Arc<Mutex<Option<ReplicaRun>>> = Arc::default();
        let slot = now.clone();
        let component = lab.cluster.start(name, move |process| {
            let slot = slot.clone();
            async move { run(&process, &slot).await }
        });
        Self {
            component,
            current: now,
        }
    }

    fn current_life(&self) -> Option<ReplicaRun> {
        self.current.lock().unwrap().clone()
    }

    /// Whether its table has a hostname with a backend.
    pub fn has_backend(&self, hostname: &str) -> bool {
        self.current_life().is_some_and(|life| {
            let table = life.table.load();
            table.hosts.get(hostname).is_some_and(|host| !host.routes.is_empty())
        })
    }

    /// The hostnames of its table.
    pub fn hosts(&self) -> Vec<String> {
        let life = self.current_life();
        life.map_or_else(Vec::new, |life| life.table.load().hosts.keys().cloned().collect())
    }

    pub fn is_ready(&self) -> bool {
        self.current_life().is_some_and(|life| life.health.is_ready())
    }

    /// The agent session that it holds.
    pub fn session(&self, connector: &ObjectKey) -> Option<String> {
        let life = self.current_life()?;
        let wanted = life.sessions.targets.lock().unwrap();
        Some(wanted.get(connector)?.target.session.clone())
    }

    /// Loses a session, or restores it.
    pub fn set_lost(&self, connector: &ObjectKey, lost: bool) {
        let life = self.current_life().expect("the gateway is running");
        let mut down = life.sessions.down.lock().unwrap();
        if lost {
            down.insert(connector.clone());
        } else {
            down.remove(connector);
        }
        drop(down);
        life.sessions.trigger.enqueue(&pass_key(NAMESPACE));
    }

    /// Makes it delete its record.
    pub async fn leave(&self) {
        let life = self.current_life().expect("the gateway is running");
        life.control.delete_replica().await;
    }
}

async fn run(process: &Process, slot: &Mutex<Option<ReplicaRun>>) {
    let (sessions, table, health) = (FakeSessions::default(), Arc::default(), PhaseHandle::default());
    let (spawner, telemetry) = (process.clone(), Telemetry::default());
    let parts = GatewayDeps {
        sessions: Arc::new(sessions.clone()),
        trigger: sessions.trigger.clone(),
        table: Arc::clone(&table),
        health: health.clone(),
        clock: Clock::system(),
        tasks: Some(Tasks::with_spawner(move |task| spawner.spawn(task))),
        telemetry,
        gateway: GatewayMetrics::default(),
    };
    let place = ReplicaInfo {
        namespace: NAMESPACE.to_owned(),
        identity: process.name().to_owned(),
        listen: "192.0.2.1:80".to_owned(),
        listen_tls: None,
        endpoint_id: "cd".repeat(32),
        lease_seconds: 15,
        relays: Vec::new(),
    };
    let (engine, control) = ControlHandle::engine(process.plain_client(), place, None, parts);
    *slot.lock().unwrap() = Some(ReplicaRun {
        table,
        sessions,
        control,
        health,
    });
    engine.run(pending()).await.expect("it runs until it is stopped");
}
