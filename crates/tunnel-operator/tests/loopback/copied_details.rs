//! Connectors whose details were copied from another Connector: the other agent refuses them, its own tunnel
//! is not affected, and both sides report the cause.

use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::lab::{ATTACKER, Agent, Lab, VICTIM, backend, hostname};
use crate::service::{Service, echoes, get, upgrade};

const SECRET: &str = "private";

/// A proven tunnel with an open upgraded connection.
struct Victim {
    lab: Lab,
    agent: Agent,
    service: Service,
    details: Value,
    socket: TcpStream,
}

impl Victim {
    async fn start() -> Self {
        let (lab, service) = (Lab::start().await, Service::start(SECRET).await);
        let address = service.address.to_string();
        let agent = lab.start_agent(VICTIM, "laptop", 1, &[&address]);
        lab.create_tunnel(VICTIM, "web", &backend(&address, "laptop")).await;
        lab.wait_ready(VICTIM, "web", "Proven").await;
        let socket = upgrade(lab.listener, &hostname("web")).await.unwrap();
        Self {
            details: lab.connection_details(VICTIM, "laptop").await,
            lab,
            agent,
            service,
            socket,
        }
    }

    /// Asserts that its tunnel works as before: new requests, open connections, and Ready.
    async fn assert_undisturbed(&mut self) {
        let got = get(self.lab.listener, &hostname("web")).await;
        assert_eq!(got.status, 200, "{got:?}");
        assert!(echoes(&mut self.socket).await, "an open connection broke");
        let ready = self.lab.condition(VICTIM, "web", "Ready").await;
        assert!(ready.as_ref().is_some_and(|it| it.status == "True"), "{ready:?}");
    }

    /// Asserts that a tunnel to it through another Connector is refused and does not serve.
    async fn assert_not_published(&mut self, namespace: &str, tunnel: &str, connector: &str) {
        let ready = self.lab.wait_ready(namespace, tunnel, "ProofRefused").await;
        let refused = format!("the agent with the key of Connector {connector:?} rejects it");
        assert!(ready.message.starts_with(&refused), "{ready:?}");
        let command = format!("aplomb connect PORT --name {connector}");
        assert!(ready.message.contains(&command), "{ready:?}");
        for _ in 0..5 {
            let got = get(self.lab.listener, &hostname(tunnel)).await;
            assert!(got.is_gateway_error(403, "Unauthorised"), "{got:?}");
            assert!(!got.text.contains(SECRET), "{got:?}");
            let refused = upgrade(self.lab.listener, &hostname(tunnel)).await;
            let refused = refused.expect_err("an upgraded connection");
            assert!(refused.is_gateway_error(403, "Unauthorised"), "{refused:?}");
            self.assert_undisturbed().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copied_details_publish_nothing_under_another_name() {
    let mut victim = Victim::start().await;
    let address = victim.service.address;
    for (round, (namespace, name)) in [(ATTACKER, "laptop"), (ATTACKER, "desk"), (VICTIM, "desk")]
        .into_iter()
        .enumerate()
    {
        let tunnel = format!("theft-{round}");
        victim.lab.create_connector(namespace, name).await;
        victim.lab.copy_details(namespace, name, &victim.details).await;
        victim
            .lab
            .create_tunnel(namespace, &tunnel, &backend(address, name))
            .await;
        victim.assert_not_published(namespace, &tunnel, name).await;
    }
    let lines = victim.agent.events("refused");
    assert_eq!(lines.len(), 1, "one event for all of them: {lines:?}");
    let line = lines[0]["message"].as_str().unwrap();
    assert!(line.contains("\"mallory\""), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_working_tunnel_is_refused_once_its_connector_copies_details() {
    let mut victim = Victim::start().await;
    let address = victim.service.address;
    let lab = &victim.lab;
    // In production, this address refers to a different machine for each agent.
    let agent = lab.start_agent(ATTACKER, "laptop", 2, &[&address.to_string()]);
    lab.create_tunnel(ATTACKER, "theft", &backend(address, "laptop")).await;
    lab.wait_ready(ATTACKER, "theft", "Proven").await;
    lab.copy_details(ATTACKER, "laptop", &victim.details).await;
    let ended = agent.wait_ended().await.expect_err("the agent was replaced");
    assert!(ended.to_string().contains("was taken over"), "{ended}");
    victim.assert_not_published(ATTACKER, "theft", "laptop").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_connector_is_served_once_its_agent_registers_again() {
    let victim = Victim::start().await;
    let Victim {
        lab,
        agent,
        service,
        details,
        ..
    } = victim;
    let connectors = lab.connectors(VICTIM);
    connectors.delete("laptop", &Default::default()).await.unwrap();
    lab.create_connector(VICTIM, "laptop").await;
    lab.copy_details(VICTIM, "laptop", &details).await;
    let ended = agent.wait_ended().await.expect_err("its Connector was deleted");
    assert!(ended.to_string().contains("was deleted"), "{ended}");
    let got = get(lab.listener, &hostname("web")).await;
    assert_ne!(got.status, 200, "{got:?}");
    let address = service.address.to_string();
    let mut agent = lab.start_agent(VICTIM, "laptop", 1, &[&address]);
    let served = async || get(lab.listener, &hostname("web")).await.status == 200;
    crate::lab::until("the tunnel is served again", async || served().await.then_some(())).await;
    lab.wait_ready(VICTIM, "web", "Proven").await;
    sleep(Duration::from_millis(500)).await;
    assert!(agent.events("refused").is_empty());
    agent.stop().await;
}
