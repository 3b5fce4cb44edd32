//! Connections to backends with an address: resolved, checked by the [`AddressPolicy`], and then dialed at
//! exactly the address that was checked. TLS to the origin is handled here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io};

use aplomb_tunnel_protocol::{Proof, ProofStatement};
use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::origin::policy::AddressPolicy;
use crate::origin::{DialError, OriginDialer, OriginStream};
use crate::routing::{Addresses, OriginAddress, OriginTarget};

type Resolver = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("--origin-ca does not contain PEM certificates: {0}")]
    Authorities(String),
    #[error("cannot configure TLS to origins: {0}")]
    Tls(#[from] rustls::Error),
}

pub struct AddressDialer {
    policy: AddressPolicy,
    tls: TlsConnector,
    resolve: Arc<Resolver>,
    /// Round-robin start among several addresses.
    next_address: AtomicUsize,
}

impl AddressDialer {
    /// A dialer that trusts the system's CAs and those in `authorities` (PEM).
    ///
    /// # Errors
    /// The CAs cannot be read.
    pub fn new(guard: AddressPolicy, authorities: Option<&[u8]>) -> Result<Self, AddressError> {
        let mut roots = RootCertStore::empty();
        // Unreadable system CAs are ignored here; a handshake that needs them reports the failure.
        let system = rustls_native_certs::load_native_certs().certs;
        roots.add_parsable_certificates(system);
        let unreadable = |error: &dyn fmt::Display| AddressError::Authorities(error.to_string());
        for each in CertificateDer::pem_slice_iter(authorities.unwrap_or_default()) {
            let each = each.map_err(|error| unreadable(&error))?;
            roots.add(each).map_err(|error| unreadable(&error))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            policy: guard,
            tls: TlsConnector::from(Arc::new(config)),
            resolve: Arc::new(|name| {
                let found = async { Ok(tokio::net::lookup_host(name).await?.collect()) };
                found.boxed()
            }),
            next_address: AtomicUsize::new(0),
        })
    }

    async fn connect(&self, origin: &OriginTarget, deadline: Instant) -> Result<Box<dyn OriginStream>, DialError> {
        let OriginAddress::Addresses(target) = &origin.target else {
            return Err(DialError::Offline);
        };
        let addresses = self.resolve_allowed(target).await?;
        let stream = dial_first(&addresses, deadline).await?;
        let Some(name) = &origin.tls else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(name.clone())
            .map_err(|_| DialError::Unreachable("the TLS server name is not a valid hostname".into()))?;
        let stream = self.tls.connect(name, stream).await;
        let stream = stream.map_err(|error| DialError::Unreachable(format!("TLS: {error}")))?;
        Ok(Box::new(stream))
    }

    /// Resolves and checks every address. One forbidden address rejects the whole backend.
    async fn resolve_allowed(&self, target: &Addresses) -> Result<Vec<SocketAddr>, DialError> {
        let mut all = Vec::new();
        for name in &target.names {
            let found = (self.resolve)(name.clone()).await;
            let found = found.map_err(|error| DialError::Unreachable(format!("{name}: {error}")))?;
            for address in &found {
                self.policy
                    .check(*address, &target.open_networks)
                    .map_err(|why| DialError::Forbidden(format!("{name}: {why}")))?;
            }
            all.extend(found);
        }
        if !all.is_empty() {
            let turn = self.next_address.fetch_add(1, Ordering::Relaxed) % all.len();
            all.rotate_left(turn);
        }
        Ok(all)
    }
}

/// Connects to the first address that accepts. The remaining time is divided evenly.
async fn dial_first(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, DialError> {
    let mut last = DialError::Unreachable("the backend has no address".to_owned());
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let shares = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let until = Instant::now() + left / shares;
        match timeout_at(until, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "Failed to set a socket option");
                }
                return Ok(stream);
            }
            Ok(Err(error)) => last = DialError::Unreachable(error.to_string()),
            Err(_) => last = DialError::TimedOut,
        }
    }
    Err(last)
}

impl OriginDialer for AddressDialer {
    fn dial<'a>(
        &'a self,
        origin: &'a OriginTarget,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Box<dyn OriginStream>, DialError>> {
        let connect = timeout_at(deadline, self.connect(origin, deadline));
        connect.map(|stream| stream.unwrap_or(Err(DialError::TimedOut))).boxed()
    }

    /// A backend with an address has no agent.
    fn prove<'a>(
        &'a self,
        _: &'a OriginTarget,
        _: &'a ProofStatement,
        _: Instant,
    ) -> BoxFuture<'a, Result<Proof, DialError>> {
        std::future::ready(Err(DialError::Offline)).boxed()
    }
}

impl fmt::Debug for AddressDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressDialer")
            .field("guard", &self.policy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
