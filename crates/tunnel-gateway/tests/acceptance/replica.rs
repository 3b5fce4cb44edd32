//! A gateway without sockets: a process of the world, with stand-ins for its sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex};

use aplomb::{Clock, Key, Poke, Tasks, Telemetry};
use aplomb_api::tunnel::LostSession;
use aplomb_simulation::{Component, Process};
use aplomb_tunnel_gateway::client::Sessions;
use aplomb_tunnel_gateway::control::{Control, Parts, home};
use aplomb_tunnel_gateway::office::Place;
use aplomb_tunnel_gateway::serve::Health;
use aplomb_tunnel_gateway::table::Table;
use aplomb_tunnel_gateway::telemetry::GatewayTelemetry;
use aplomb_tunnel_gateway::world::Wanted;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;

use crate::lab::{Lab, NAMESPACE};

/// A replica; what is here is of its present life.
pub struct Replica {
    pub component: Component,
    now: Arc<Mutex<Option<Life>>>,
}

#[derive(Clone)]
struct Life {
    table: Arc<ArcSwap<Table>>,
    sessions: Stand,
    control: Control,
    health: Health,
}

/// Sessions that are there unless a test says otherwise.
#[derive(Clone, Default)]
struct Stand {
    wanted: Arc<Mutex<BTreeMap<Key, Wanted>>>,
    down: Arc<Mutex<BTreeSet<Key>>>,
    poke: Poke,
}

impl Sessions for Stand {
    fn keep(&self, wanted: &BTreeMap<Key, Wanted>) {
        self.wanted.lock().unwrap().clone_from(wanted);
    }

    fn lost(&self) -> Vec<LostSession> {
        let (wanted, down) = (self.wanted.lock().unwrap(), self.down.lock().unwrap());
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
        let now: Arc<Mutex<Option<Life>>> = Arc::default();
        let slot = now.clone();
        let component = lab.cluster.start(name, move |process| {
            let slot = slot.clone();
            async move { live(&process, &slot).await }
        });
        Self { component, now }
    }

    fn life(&self) -> Option<Life> {
        self.now.lock().unwrap().clone()
    }

    /// Whether its table has a hostname with somewhere to go.
    pub fn serves(&self, hostname: &str) -> bool {
        self.life().is_some_and(|life| {
            let table = life.table.load();
            table
                .hosts
                .get(hostname)
                .is_some_and(|host| !host.routes.is_empty())
        })
    }

    /// The hostnames of its table.
    pub fn hosts(&self) -> Vec<String> {
        let life = self.life();
        life.map_or_else(Vec::new, |life| {
            life.table.load().hosts.keys().cloned().collect()
        })
    }

    pub fn is_ready(&self) -> bool {
        self.life().is_some_and(|life| life.health.ready())
    }

    /// The session of the agent that it holds.
    pub fn session(&self, connector: &Key) -> Option<String> {
        let life = self.life()?;
        let wanted = life.sessions.wanted.lock().unwrap();
        Some(wanted.get(connector)?.target.session.clone())
    }

    /// Loses a session, or finds it again.
    pub fn lose(&self, connector: &Key, lost: bool) {
        let life = self.life().expect("it lives");
        let mut down = life.sessions.down.lock().unwrap();
        if lost {
            down.insert(connector.clone());
        } else {
            down.remove(connector);
        }
        drop(down);
        life.sessions.poke.poke(&home(NAMESPACE));
    }

    /// Tells it to take its name off the list.
    pub async fn leave(&self) {
        let life = self.life().expect("it lives");
        life.control.leave().await;
    }
}

async fn live(process: &Process, slot: &Mutex<Option<Life>>) {
    let (sessions, table, health) = (Stand::default(), Arc::default(), Health::default());
    let (spawner, telemetry) = (process.clone(), Telemetry::default());
    let parts = Parts {
        sessions: Arc::new(sessions.clone()),
        poke: sessions.poke.clone(),
        table: Arc::clone(&table),
        health: health.clone(),
        clock: Clock::system(),
        tasks: Some(Tasks::with(move |task| spawner.spawn(task))),
        telemetry,
        gateway: GatewayTelemetry::default(),
    };
    let place = Place {
        namespace: NAMESPACE.to_owned(),
        identity: process.name().to_owned(),
        listen: "192.0.2.1:80".to_owned(),
        listen_tls: None,
        endpoint_id: "cd".repeat(32),
        lease_seconds: 15,
        relays: Vec::new(),
    };
    let (engine, control) = Control::engine(process.plain_client(), place, None, parts);
    *slot.lock().unwrap() = Some(Life {
        table,
        sessions,
        control,
        health,
    });
    engine
        .run(pending())
        .await
        .expect("it runs until it is stopped");
}
