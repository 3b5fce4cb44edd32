//! A gateway: the real control side and the real request path, over a network that is a stand-in. A
//! process of the world that can be crashed and frozen.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use aplomb::{Clock, Poke, Tasks, Telemetry};
use aplomb_simulation::{Component, Process};
use aplomb_tunnel_gateway::client::Sessions;
use aplomb_tunnel_gateway::control::{Control, Parts, home};
use aplomb_tunnel_gateway::office::Place;
use aplomb_tunnel_gateway::serve::{Phase, ServeSettings, Server};
use aplomb_tunnel_gateway::table::Table;
use aplomb_tunnel_gateway::telemetry::GatewayTelemetry;
use arc_swap::ArcSwap;
use tokio::time::sleep;

use crate::lab::{Lab, NAMESPACE};
use crate::net::{Line, Net};

/// How often the stand-in looks whether a session was lost or found.
const LOOK: Duration = Duration::from_millis(250);

/// A gateway, over all its lives.
pub struct Gateway {
    pub component: Component,
}

impl Gateway {
    /// The gateway with this number.
    pub fn start(lab: &Lab, number: u8) -> Self {
        let net = lab.net.clone();
        let component = lab.cluster.start(&name(number), move |process| {
            let tasks = process.clone();
            let clock = process.clock().clone();
            let life = Life {
                number,
                net: net.clone(),
                clock: Clock::new(move || clock.now()),
                tasks: Tasks::with(move |task| tasks.spawn(task)),
            };
            on_process(process, life)
        });
        Self { component }
    }
}

/// What the gateway with this number is called.
pub fn name(number: u8) -> String {
    format!("gateway-{number}")
}

async fn on_process(process: Process, life: Life) {
    live(process.plain_client(), life).await;
}

/// What a life of a gateway is given.
pub struct Life {
    pub number: u8,
    pub net: Net,
    pub clock: Clock,
    pub tasks: Tasks,
}

/// Serves until it is stopped.
pub async fn live(client: kube::Client, life: Life) {
    let endpoint_id = format!("{:064x}", life.number);
    let place = Place {
        namespace: NAMESPACE.to_owned(),
        identity: name(life.number),
        listen: format!("192.0.2.{}:80", life.number),
        listen_tls: None,
        endpoint_id: endpoint_id.clone(),
        lease_seconds: 15,
        relays: Vec::new(),
    };
    let (poke, line) = (Poke::default(), life.net.dialer(&endpoint_id));
    let (table, gateway) = (
        Arc::<ArcSwap<Table>>::default(),
        GatewayTelemetry::default(),
    );
    let serving = ServeSettings {
        tasks: life.tasks.clone(),
        clock: life.clock.clone(),
        seed: u64::from(life.number),
        ..ServeSettings::default()
    };
    let server = Server::new(serving, table.clone(), line.clone(), gateway.clone());
    let server = Arc::new(server);
    let parts = Parts {
        sessions: line.clone(),
        poke: poke.clone(),
        table,
        health: server.health(),
        clock: life.clock,
        tasks: Some(life.tasks),
        telemetry: Telemetry::default(),
        gateway,
    };
    let listen = place.listen.clone();
    let (engine, _control) = Control::engine(client, place, None, parts);
    let listening = async {
        server.health().reached(Phase::Serving).await;
        let _place = life.net.gateway(&listen, server.clone());
        watch(&line, &poke).await;
    };
    tokio::select! { biased;
        ended = engine.run(pending()) => panic!("the gateway ended: {ended:?}"),
        () = listening => {}
    }
}

/// Tells the control side when a session was lost or found.
async fn watch(line: &Line, poke: &Poke) {
    let mut last = Vec::new();
    loop {
        let lost = line.lost();
        if lost != last {
            poke.poke(&home(NAMESPACE));
            last = lost;
        }
        sleep(LOOK).await;
    }
}
