//! Connections to exposed services, and checks whether they accept connections. Targets that are not exposed
//! are never dialed.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use aplomb_tunnel_protocol::OriginState;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::error::Result;
use crate::target::{ExposedTarget, ExposedTargets};
use crate::tls::{OriginTls, OriginTlsSettings};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a check, which many requests may share.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the result of a check is valid.
const PROBE_MAX_AGE: Duration = Duration::from_secs(1);

/// A connection to an origin, as bytes.
pub trait OriginIo: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> OriginIo for T {}

/// A check of an origin that concurrent callers share.
type OriginProbe = Shared<BoxFuture<'static, OriginState>>;
/// The checks by target, with their start time.
type OriginProbes = BTreeMap<(ExposedTarget, Option<String>), (Instant, OriginProbe)>;

/// The origins of an agent.
pub struct OriginPool {
    exposed: ExposedTargets,
    tls: Arc<OriginTls>,
    probes: Mutex<OriginProbes>,
}

impl OriginPool {
    /// Creates it for the exposed targets.
    ///
    /// # Errors
    /// The CA file cannot be used.
    pub fn new(exposed: ExposedTargets, tls: &OriginTlsSettings) -> Result<Self> {
        Ok(Self {
            exposed,
            tls: Arc::new(OriginTls::new(tls)?),
            probes: Mutex::default(),
        })
    }

    /// The target named by `text`, if it is exposed.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<ExposedTarget> {
        self.exposed.find(text)
    }

    /// Connects to `target`, with TLS if a server name is given.
    ///
    /// # Errors
    /// It does not accept a connection in time.
    pub async fn connect(&self, target: &ExposedTarget, name: Option<&str>) -> io::Result<Box<dyn OriginIo>> {
        with_timeout(CONNECT_TIMEOUT, connect(target, name, &self.tls)).await
    }

    /// Whether `target` accepts connections, from a check at most a second old. A check that takes longer
    /// than `limit` counts as a failure for this caller.
    pub async fn probe(&self, target: &ExposedTarget, name: Option<&str>, limit: Duration) -> OriginState {
        let key = (target.clone(), name.map(str::to_owned));
        let look = timeout(limit, self.shared_probe(key)).await;
        look.unwrap_or(OriginState::Unreachable)
    }

    fn shared_probe(&self, key: (ExposedTarget, Option<String>)) -> OriginProbe {
        let now = Instant::now();
        let looks = self.probes.lock();
        let mut looks = looks.unwrap_or_else(PoisonError::into_inner);
        looks.retain(|_, (began, _)| now.duration_since(*began) < PROBE_MAX_AGE);
        let (_, look) = looks.entry(key).or_insert_with_key(|(target, name)| {
            let (target, name, tls) = (target.clone(), name.clone(), self.tls.clone());
            let look = async move {
                match with_timeout(PROBE_TIMEOUT, connect(&target, name.as_deref(), &tls)).await {
                    Ok(_) => OriginState::Reachable,
                    Err(_) => OriginState::Unreachable,
                }
            };
            (now, look.boxed().shared())
        });
        look.clone()
    }
}

impl fmt::Debug for OriginPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origins")
            .field("exposed", &self.exposed)
            .finish_non_exhaustive()
    }
}

async fn with_timeout<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(limit, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection within {limit:?}"),
        )),
    }
}

async fn connect(target: &ExposedTarget, name: Option<&str>, tls: &OriginTls) -> io::Result<Box<dyn OriginIo>> {
    let stream = connect_tcp(target).await?;
    // Requests and frames of upgraded connections are small and latency-sensitive.
    stream.set_nodelay(true)?;
    let Some(name) = name else {
        return Ok(Box::new(stream));
    };
    let name = ServerName::try_from(name.to_owned())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a valid TLS server name"))?;
    let stream = TlsConnector::from(tls.config()).connect(name, stream).await?;
    Ok(Box::new(stream))
}

async fn connect_tcp(target: &ExposedTarget) -> io::Result<TcpStream> {
    let port = target.port();
    if target.host() == "localhost" {
        // Needs no resolver, and local services listen on either address.
        let both: [SocketAddr; 2] = [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
        return TcpStream::connect(&both[..]).await;
    }
    TcpStream::connect((target.host(), port)).await
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn origins(target: &ExposedTarget) -> OriginPool {
        let exposed = ExposedTargets::new(vec![target.clone()]);
        OriginPool::new(exposed, &OriginTlsSettings::default()).expect("no file to read")
    }

    #[tokio::test]
    async fn probes_within_a_second_are_shared() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let target: ExposedTarget = address.parse().expect("a target");
        let origins = origins(&target);
        let look = || origins.probe(&target, None, PROBE_TIMEOUT);
        let both = futures::join!(look(), look());
        assert_eq!(both, (OriginState::Reachable, OriginState::Reachable));
        drop(listener);
        assert_eq!(
            origins.probe(&target, None, PROBE_TIMEOUT).await,
            OriginState::Reachable
        );
    }

    #[tokio::test]
    async fn a_stopped_origin_is_detected_after_a_second() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let target: ExposedTarget = address.parse().expect("a target");
        let origins = origins(&target);
        assert_eq!(
            origins.probe(&target, None, PROBE_TIMEOUT).await,
            OriginState::Reachable
        );
        drop(listener);
        tokio::time::pause();
        tokio::time::advance(PROBE_MAX_AGE).await;
        tokio::time::resume();
        assert_eq!(
            origins.probe(&target, None, PROBE_TIMEOUT).await,
            OriginState::Unreachable
        );
    }
}
