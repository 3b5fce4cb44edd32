//! An iroh peer that has an agent's public key and addresses, but is not a gateway of its class.

use anyhow::{Context, Result, bail, ensure};
use aplomb_api::tunnel::{Connector, PublicKey};
use aplomb_tunnel_protocol::{ALPN, CLOSE_NOT_ALLOWED, ConnectorId, StreamRequest, encode};
use iroh::endpoint::{Connection, ConnectionError, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode, TransportAddr};
use kube::Api;
use tokio::time::timeout;

use crate::TENANT;
use crate::stage::{Stage, TIMEOUT};

pub(crate) async fn check_unlisted_peer(stage: &Stage) -> Result<()> {
    let api: Api<Connector> = Api::namespaced(stage.client().await?, TENANT);
    let status = api.get(TENANT).await?.status.context("the Connector has no status")?;
    let key = status
        .connection_details
        .context("the Connector is not registered")?
        .public_key;
    let endpoint = Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .bind()
        .await?;
    let tried = connect(&endpoint, &key).await;
    endpoint.close().await;
    println!("        {}", tried?);
    Ok(())
}

/// How it was rejected, if it got nothing.
async fn connect(endpoint: &Endpoint, key: &PublicKey) -> Result<String> {
    let addresses = key
        .addresses
        .iter()
        .filter_map(|a| Some((a.address.parse().ok()?, a.port)));
    let addresses: Vec<(std::net::IpAddr, u16)> = addresses.collect();
    ensure!(!addresses.is_empty(), "the agent publishes no address");
    let addresses = addresses.into_iter().map(|address| TransportAddr::Ip(address.into()));
    let address = EndpointAddr::from_parts(key.id.parse()?, addresses);
    let connection = match timeout(TIMEOUT, endpoint.connect(address, ALPN)).await? {
        Ok(connection) => connection,
        Err(error) => return Ok(format!("rejected at the handshake: {error}")),
    };
    let sent = send_request(&connection).await;
    if let Ok(answer) = sent {
        ensure!(answer.is_empty(), "it got {} bytes", answer.len());
    }
    match timeout(TIMEOUT, connection.closed()).await? {
        ConnectionError::ApplicationClosed(closed) if closed.error_code == CLOSE_NOT_ALLOWED.into() => {
            Ok("closed as unlisted, before any stream".to_owned())
        }
        other => bail!("it ended with {other:?}"),
    }
}

/// Sends a request to the origin as a gateway would.
async fn send_request(connection: &Connection) -> Result<Vec<u8>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let dial = StreamRequest::Dial {
        connector: ConnectorId::default(),
        session: "any".to_owned(),
        target: "localhost:80".to_owned(),
        tls: None,
    };
    send.write_all(&encode(&dial)?).await?;
    send.finish()?;
    Ok(timeout(TIMEOUT, recv.read_to_end(1024)).await??)
}
