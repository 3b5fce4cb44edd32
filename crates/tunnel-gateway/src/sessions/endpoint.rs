//! The iroh endpoint and its key. No discovery, and no relays but those an administrator named. The key is kept in a file
//! that only its owner can read, generated on the first run, and never printed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
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
    #[error("relay {0:?} is not a URL: use a form like https://relay.example.com")]
    Relay(String),
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

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("key file {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("key file {}: not a key of 64 hexadecimal digits; delete the file to generate a new key", .0.display())]
    NotAKey(PathBuf),
    #[error("key file {}: readable by other users; run chmod 600 on it", .0.display())]
    Exposed(PathBuf),
}

/// The key in `file`, which is generated if it does not exist. Without a file, a key for this process only.
///
/// # Errors
/// The file cannot be used.
pub fn secret_key(file: Option<&Path>) -> Result<SecretKey, KeyError> {
    let Some(path) = file else {
        return Ok(SecretKey::generate());
    };
    match fs::read_to_string(path) {
        Ok(text) => parse_key(path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_key(path),
        Err(error) => Err(io_error(path, error)),
    }
}

fn parse_key(path: &Path, text: &str) -> Result<SecretKey, KeyError> {
    let meta = fs::metadata(path).map_err(|error| io_error(path, error))?;
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(KeyError::Exposed(path.to_owned()));
    }
    let text = text.trim().to_ascii_lowercase();
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let key = text.parse().ok().filter(|_| is_hex);
    key.ok_or_else(|| KeyError::NotAKey(path.to_owned()))
}

fn create_key(path: &Path) -> Result<SecretKey, KeyError> {
    let key = SecretKey::generate();
    let text: String = key.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| io_error(path, error))?;
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| io_error(path, error))?;
    Ok(key)
}

fn io_error(path: &Path, error: io::Error) -> KeyError {
    KeyError::Io {
        path: path.to_owned(),
        error,
    }
}
