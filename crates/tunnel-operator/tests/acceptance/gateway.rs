//! A gateway: the real control side and the real request path, over a simulated network. A simulated process
//! that can be crashed and frozen.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Clock, Tasks, Telemetry, Trigger};
use aplomb_simulation::{Component, Process};
use aplomb_tunnel_gateway::control::context::ReplicaInfo;
use aplomb_tunnel_gateway::control::{ControlHandle, GatewayDeps, pass_key};
use aplomb_tunnel_gateway::proxy::{ProxyServer, ProxySettings, ServePhase};
use aplomb_tunnel_gateway::routing::RoutingTable;
use aplomb_tunnel_gateway::sessions::AgentSessions;
use aplomb_tunnel_gateway::telemetry::GatewayMetrics;
use arc_swap::ArcSwap;
use tokio::time::sleep;

use crate::lab::{Lab, NAMESPACE};
use crate::net::{GatewayLine, Net};

/// How often the simulation checks whether a session was lost or restored.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A gateway across restarts.
pub struct Gateway {
    pub component: Component,
}

impl Gateway {
    /// Starts the gateway with this number.
    pub fn start(lab: &Lab, number: u8) -> Self {
        let net = lab.net.clone();
        let component = lab.cluster.start(&name(number), move |process| {
            let tasks = process.clone();
            let clock = process.clock().clone();
            let life = Life {
                number,
                net: net.clone(),
                clock: Clock::new(move || clock.now()),
                tasks: Tasks::with_spawner(move |task| tasks.spawn(task)),
            };
            run_in_process(process, life)
        });
        Self { component }
    }
}

/// The name of the gateway with this number.
pub fn name(number: u8) -> String {
    format!("gateway-{number}")
}

async fn run_in_process(process: Process, life: Life) {
    run(process.plain_client(), life).await;
}

/// Settings of one run of a gateway.
pub struct Life {
    pub number: u8,
    pub net: Net,
    pub clock: Clock,
    pub tasks: Tasks,
}

/// Runs until it is stopped.
pub async fn run(client: kube::Client, life: Life) {
    let endpoint_id = format!("{:064x}", life.number);
    let place = ReplicaInfo {
        namespace: NAMESPACE.to_owned(),
        identity: name(life.number),
        listen: format!("192.0.2.{}:80", life.number),
        listen_tls: None,
        endpoint_id: endpoint_id.clone(),
        lease_seconds: 15,
        relays: Vec::new(),
    };
    let (poke, line) = (Trigger::default(), life.net.dialer(&endpoint_id));
    let (table, gateway) = (Arc::<ArcSwap<RoutingTable>>::default(), GatewayMetrics::default());
    let serving = ProxySettings {
        tasks: life.tasks.clone(),
        clock: life.clock.clone(),
        seed: u64::from(life.number),
        ..ProxySettings::default()
    };
    let server = ProxyServer::new(serving, table.clone(), line.clone(), gateway.clone());
    let server = Arc::new(server);
    let parts = GatewayDeps {
        sessions: line.clone(),
        trigger: poke.clone(),
        table,
        health: server.health(),
        clock: life.clock,
        tasks: Some(life.tasks),
        telemetry: Telemetry::default(),
        gateway,
    };
    let listen = place.listen.clone();
    let (engine, _control) = ControlHandle::engine(client, place, None, parts);
    let listening = async {
        server.health().wait_for(ServePhase::Serving).await;
        let _place = life.net.add_gateway(&listen, server.clone());
        watch_sessions(&line, &poke).await;
    };
    tokio::select! { biased;
        ended = engine.run(pending()) => panic!("the gateway ended: {ended:?}"),
        () = listening => {}
    }
}

/// Triggers the control side when a session is lost or restored.
async fn watch_sessions(line: &GatewayLine, poke: &Trigger) {
    let mut last = Vec::new();
    loop {
        let lost = line.lost_sessions();
        if lost != last {
            poke.enqueue(&pass_key(NAMESPACE));
            last = lost;
        }
        sleep(POLL_INTERVAL).await;
    }
}
