//! The agent's endpoint: bound as its class requires, accepting connections until it is released.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb_tunnel_protocol::{ALPN, OLD_ALPN};
use iroh::endpoint::{Builder, Incoming, QuicTransportConfig, VarInt, presets};
use iroh::{Endpoint, RelayMap, RelayMode, RelayUrl, SecretKey};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::accept::{AllowedGateways, ConnectionContext, MAX_WAITING};
use crate::error::{Error, Result};
use crate::stream_handler::StreamHandler;

const MAX_STREAMS_PER_CONNECTION: u32 = 1024;
/// Maximum concurrent connections, including handshakes.
const MAX_CONNECTIONS: usize = 256;
/// Number of connections above which a peer must validate its address first.
const MAX_UNVALIDATED_CONNECTIONS: usize = 32;
/// Idle timeout of a connection. Gateways send a keepalive every second.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long closing the connections may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Addresses of the endpoint.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Addresses to bind; all interfaces, IPv4 and IPv6, if empty.
    pub bind: Vec<SocketAddr>,
    /// Addresses to publish in addition to the discovered ones.
    pub advertise: Vec<SocketAddr>,
    /// Publish no direct address: gateways connect through a relay.
    pub relay_only: bool,
}

/// Binds an endpoint that uses only these relays and no public discovery service.
///
/// # Errors
/// A relay is not a URL, or an address cannot be bound.
pub async fn bind(secret: SecretKey, network: &NetworkConfig, relays: &[String]) -> Result<Endpoint> {
    let transport = QuicTransportConfig::builder()
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS_PER_CONNECTION))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(IDLE_TIMEOUT.try_into().ok())
        .build();
    let builder = Endpoint::builder(presets::Minimal)
        .secret_key(secret)
        .alpns(vec![ALPN.to_vec(), OLD_ALPN.to_vec()])
        .relay_mode(relay_mode(relays)?)
        .transport_config(transport);
    let bound = bind_sockets(builder, network)?.bind().await;
    bound.map_err(|error| Error::Bind(format!("{error:#}")))
}

fn bind_sockets(mut builder: Builder, network: &NetworkConfig) -> Result<Builder> {
    if !network.bind.is_empty() {
        builder = builder.clear_ip_transports();
    }
    for address in &network.bind {
        let bound = builder.bind_addr(*address);
        builder = bound.map_err(|error| Error::Bind(format!("--bind {address}: {error}")))?;
    }
    for address in &network.advertise {
        builder = builder.external_addr(*address);
    }
    Ok(builder)
}

/// The relay mode for these relays.
///
/// # Errors
/// One of them is not a URL; the message names it.
pub(crate) fn relay_mode(relays: &[String]) -> Result<RelayMode> {
    let urls = relays.iter().map(|relay| {
        relay
            .parse::<RelayUrl>()
            .map_err(|error| Error::InvalidSetting(format!("relay {relay:?} of the class is not a URL: {error}")))
    });
    let urls: Vec<RelayUrl> = urls.collect::<Result<_>>()?;
    Ok(match urls.is_empty() {
        true => RelayMode::Disabled,
        false => RelayMode::Custom(RelayMap::from_iter(urls)),
    })
}

/// Closes an endpoint that is replaced by another. Its connections close without the release code, so that
/// gateways reconnect.
pub(crate) async fn close_for_replacement(endpoint: &Endpoint) {
    drop(tokio::time::timeout(CLOSE_TIMEOUT, endpoint.close()).await);
}

/// Accepts connections until `released`, then closes each with the release code. A gateway that was removed
/// from the list keeps its connection for `parting`.
pub async fn serve(
    endpoint: Endpoint,
    answers: Arc<StreamHandler>,
    listed: watch::Receiver<AllowedGateways>,
    parting: Duration,
    released: CancellationToken,
) {
    let host = ConnectionContext {
        stream_handler: answers,
        allowed_gateways: listed,
        unlisted_grace: parting,
        released: released.clone(),
        waiting_slots: Arc::new(Semaphore::new(MAX_WAITING)),
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = released.cancelled() => break,
            Some(_) = connections.join_next() => {}
            incoming = endpoint.accept() => match incoming {
                Some(incoming) if connections.len() < MAX_CONNECTIONS => {
                    start_connection(incoming, &host, &mut connections);
                }
                Some(incoming) => incoming.refuse(),
                None => break,
            },
        }
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    // Handshakes in progress are dropped with the set.
    drop(tokio::time::timeout(CLOSE_TIMEOUT, ended).await);
    drop(tokio::time::timeout(CLOSE_TIMEOUT, endpoint.close()).await);
}

/// Starts a connection. Under load, only for a peer that has validated its address.
fn start_connection(incoming: Incoming, host: &ConnectionContext, connections: &mut JoinSet<()>) {
    if connections.len() < MAX_UNVALIDATED_CONNECTIONS || incoming.remote_addr_validated() {
        connections.spawn(host.clone().serve_incoming(incoming));
    } else if let Err(error) = incoming.retry() {
        error.into_incoming().refuse();
    }
}
