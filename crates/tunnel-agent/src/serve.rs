//! The agent's endpoint: bound as its class says, accepting until it is released.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::wire::{ALPN, OLD_ALPN};
use iroh::endpoint::{Builder, Incoming, QuicTransportConfig, VarInt, presets};
use iroh::{Endpoint, RelayMap, RelayMode, RelayUrl, SecretKey};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::accept::{AllowedGateways, ConnectionContext, MAX_WAITING};
use crate::stream_handler::StreamHandler;
use crate::error::{Error, Result};

/// Streams at once on one connection.
const MAX_STREAMS_PER_CONNECTION: u32 = 1024;
/// Connections at once, handshakes included.
const MAX_CONNECTIONS: usize = 256;
/// Connections at once beyond which a peer must first show that it is at its address.
const MAX_UNVALIDATED_CONNECTIONS: usize = 32;
/// How long a connection lives without a sign of the gateway, which keeps it alive every second.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the last words may take to get out.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Where the endpoint listens, and how it can be found.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Addresses to bind; every interface, IPv4 and IPv6, if there is none.
    pub bind: Vec<SocketAddr>,
    /// Addresses to publish beside those that are found.
    pub advertise: Vec<SocketAddr>,
    /// Publish no direct address: gateways come through a relay.
    pub relay_only: bool,
}

/// Binds an endpoint that uses these relays and no others: no public service is asked for anything.
///
/// # Errors
/// A relay is no URL, or an address cannot be bound.
pub async fn bind(
    secret: SecretKey,
    network: &NetworkConfig,
    relays: &[String],
) -> Result<Endpoint> {
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

/// How these relays are used.
///
/// # Errors
/// One of them is no URL, and the text says which.
pub(crate) fn relay_mode(relays: &[String]) -> Result<RelayMode> {
    let urls = relays.iter().map(|relay| {
        relay.parse::<RelayUrl>().map_err(|error| {
            Error::InvalidSetting(format!(
                "the class has a relay {relay:?} that is no URL: {error}"
            ))
        })
    });
    let urls: Vec<RelayUrl> = urls.collect::<Result<_>>()?;
    Ok(match urls.is_empty() {
        true => RelayMode::Disabled,
        false => RelayMode::Custom(RelayMap::from_iter(urls)),
    })
}

/// Closes an endpoint that another one takes the place of. Its connections end without the word that the
/// agent goes, so that gateways look for it again.
pub(crate) async fn close_for_replacement(endpoint: &Endpoint) {
    drop(tokio::time::timeout(CLOSE_TIMEOUT, endpoint.close()).await);
}

/// Accepts connections until `released`, then closes each with the word that says so. A gateway that is
/// listed no more keeps the connection it has for `parting`.
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
    // A handshake under way need not end; dropping the set ends it.
    drop(tokio::time::timeout(CLOSE_TIMEOUT, ended).await);
    drop(tokio::time::timeout(CLOSE_TIMEOUT, endpoint.close()).await);
}

/// Starts a connection. When there are many, only for a peer that was seen to be where it says it is.
fn start_connection(incoming: Incoming, host: &ConnectionContext, connections: &mut JoinSet<()>) {
    if connections.len() < MAX_UNVALIDATED_CONNECTIONS || incoming.remote_addr_validated() {
        connections.spawn(host.clone().serve_incoming(incoming));
    } else if let Err(error) = incoming.retry() {
        error.into_incoming().refuse();
    }
}
