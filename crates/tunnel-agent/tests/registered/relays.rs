//! Relays that change while an agent runs: it moves and stays online.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aplomb_tunnel_agent::AgentEvent;
use aplomb_tunnel_protocol::ALPN;
use iroh::endpoint::{Connection, ConnectionError, presets};
use iroh::{Endpoint, EndpointAddr, TransportAddr};
use tokio::time::timeout;

use crate::lab::{Agent, Lab, NAME, key, settings};

const TIMEOUT: Duration = Duration::from_secs(120);
/// No server listens there.
const UNREACHABLE_RELAY: &str = "http://127.0.0.1:9";

async fn wait_listening(agent: &mut Agent) -> Result<()> {
    let listening = |event: &AgentEvent| matches!(event, AgentEvent::Listening { .. });
    agent.next_event(listening).await.map(drop)
}

/// Connects to the addresses that the Connector lists.
async fn connect(lab: &Lab, gateway: &Endpoint) -> Result<Connection> {
    let status = lab.connectors().get(NAME).await?.status;
    let details = status.context("a status")?.connection_details;
    let key = details.context("details")?.public_key;
    let mut addresses = Vec::new();
    for told in &key.addresses {
        let address: IpAddr = told.address.parse()?;
        addresses.push(TransportAddr::Ip((address, told.port).into()));
    }
    let address = EndpointAddr::from_parts(key.id.parse()?, addresses);
    let connected = timeout(TIMEOUT, gateway.connect(address, ALPN)).await;
    Ok(connected.context("no connection in time")??)
}

async fn gateway() -> Result<Endpoint> {
    let builder = Endpoint::builder(presets::Minimal).clear_ip_transports();
    Ok(builder.bind_addr("127.0.0.1:0")?.bind().await?)
}

#[tokio::test]
async fn an_agent_whose_relays_change_is_reached_again() -> Result<()> {
    let (lab, gateway) = (Lab::start().await?, gateway().await?);
    let ids = [gateway.id().to_string()];
    let mut agent = lab.agent(settings(key()));
    let registered = |event: &AgentEvent| matches!(event, AgentEvent::Registered { .. });
    agent.next_event(registered).await?;
    lab.accept(&ids).await?;
    wait_listening(&mut agent).await?;
    let connection = connect(&lab, &gateway).await?;
    lab.accept_with(&ids, &[UNREACHABLE_RELAY]).await?;
    match timeout(TIMEOUT, connection.closed()).await? {
        ConnectionError::ApplicationClosed(close) => ensure!(close.error_code == 0_u32.into()),
        other => bail!("closed for another reason: {other}"),
    }
    wait_listening(&mut agent).await?;
    let connection = connect(&lab, &gateway).await?;
    ensure!(connection.close_reason().is_none());
    agent.stop().await?;
    Ok(())
}

#[tokio::test]
async fn relays_that_are_written_in_another_way_or_order_leave_connections_alone() -> Result<()> {
    let (lab, gateway) = (Lab::start().await?, gateway().await?);
    let id = gateway.id().to_string();
    let other = key().id();
    let mut agent = lab.agent(settings(key()));
    let registered = |event: &AgentEvent| matches!(event, AgentEvent::Registered { .. });
    agent.next_event(registered).await?;
    let relays = [UNREACHABLE_RELAY, "http://127.0.0.1:10"];
    lab.accept_with(std::slice::from_ref(&id), &relays).await?;
    wait_listening(&mut agent).await?;
    let connection = connect(&lab, &gateway).await?;
    let same = ["HTTP://127.0.0.1:10/", "http://127.0.0.1:9/"];
    lab.accept_with(&[id, other], &same).await?;
    let followed = |event: &AgentEvent| matches!(event, AgentEvent::Accepted { gateways: 2, .. });
    agent.next_event(followed).await?;
    let closed = timeout(Duration::from_secs(1), connection.closed()).await;
    ensure!(closed.is_err(), "the agent moved: {closed:?}");
    agent.stop().await?;
    Ok(())
}

#[tokio::test]
async fn an_invalid_relay_url_is_reported_and_changes_nothing() -> Result<()> {
    let (lab, gateway) = (Lab::start().await?, gateway().await?);
    let ids = [gateway.id().to_string()];
    let mut agent = lab.agent(settings(key()));
    let registered = |event: &AgentEvent| matches!(event, AgentEvent::Registered { .. });
    agent.next_event(registered).await?;
    lab.accept(&ids).await?;
    wait_listening(&mut agent).await?;
    let connection = connect(&lab, &gateway).await?;
    let bad = "http://[relay";
    lab.accept_with(&ids, &[UNREACHABLE_RELAY, bad]).await?;
    let told = agent
        .next_event(|event| matches!(event, AgentEvent::NotReady { message, .. } if message.contains(bad)))
        .await;
    told.context("the relay is not named")?;
    ensure!(connection.close_reason().is_none(), "the old endpoint is kept");
    lab.accept_with(&ids, &[UNREACHABLE_RELAY]).await?;
    wait_listening(&mut agent).await?;
    agent.stop().await?;
    Ok(())
}
