//! The iroh endpoint: no discovery, no relays but those an administrator named.

use std::net::SocketAddr;
use std::time::Duration;

use iroh::endpoint::{Builder, IdleTimeout, QuicTransportConfig, VarInt, presets};
use iroh::{Endpoint, RelayMap, RelayMode, RelayUrl, SecretKey};

/// How often an idle session says that it is there.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// After how much silence a session is dead.
const IDLE_TIMEOUT_MS: u32 = 5_000;

/// An endpoint that cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A relay's URL.
    #[error("relay {0:?} is not a URL: use a form like https://relay.example.com")]
    Relay(String),
    /// The UDP socket.
    #[error("cannot listen for QUIC on {0}: {1}")]
    Socket(String, String),
}

/// Binds an endpoint that dials and accepts nothing.
///
/// # Errors
/// A relay is not a URL, or the socket cannot be bound.
pub async fn bind_endpoint(
    key: SecretKey,
    relays: &[String],
    address: Option<SocketAddr>,
) -> Result<Endpoint, BindError> {
    let relays = relays.iter().map(|relay| relay_url(relay));
    let relays = relays.collect::<Result<Vec<_>, _>>()?;
    let shown = address.map_or_else(|| "any address".to_owned(), |it| it.to_string());
    let failed = |error: String| BindError::Socket(shown.clone(), error);
    let mut builder = Builder::new(presets::Minimal)
        .secret_key(key)
        .relay_mode(RelayMode::Custom(RelayMap::from_iter(relays)))
        .transport_config(transport_config());
    if let Some(address) = address {
        builder = builder.clear_ip_transports();
        builder = builder.bind_addr(address).map_err(|error| failed(error.to_string()))?;
    }
    builder.bind().await.map_err(|error| failed(error.to_string()))
}

fn relay_url(relay: &str) -> Result<RelayUrl, BindError> {
    relay.parse().map_err(|_| BindError::Relay(relay.to_owned()))
}

/// Sessions whose death is noticed within seconds. Agents open no streams.
fn transport_config() -> QuicTransportConfig {
    QuicTransportConfig::builder()
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .default_path_keep_alive_interval(KEEPALIVE_INTERVAL)
        .default_path_max_idle_timeout(Duration::from_millis(u64::from(IDLE_TIMEOUT_MS)))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT_MS))))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .build()
}
