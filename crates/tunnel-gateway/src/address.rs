//! Connections to backends that have an address of their own: resolved, judged by the [`AddressPolicy`], and then
//! dialled at exactly the address that was judged. TLS is spoken here where the origin has it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aplomb_api::wire::{Proof, ProofStatement};
use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::dial::{DialError, OriginDialer, OriginStream};
use crate::guard::AddressPolicy;
use crate::table::{Addresses, OriginAddress, OriginTarget};

/// What names stand for.
type Resolver = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Why there is no dialer.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The file of authorities cannot be read.
    #[error("the authorities for origins are not readable as PEM certificates: {0}")]
    Authorities(String),
    /// TLS cannot be set up.
    #[error("TLS to origins cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Dials addresses.
pub struct AddressDialer {
    policy: AddressPolicy,
    tls: TlsConnector,
    resolve: Arc<Resolver>,
    /// Where to begin among several addresses, so that each gets its share.
    next_address: AtomicUsize,
}

impl AddressDialer {
    /// A dialer that trusts the authorities of the system and those in `authorities`, which is PEM.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn new(guard: AddressPolicy, authorities: Option<&[u8]>) -> Result<Self, AddressError> {
        let mut roots = RootCertStore::empty();
        // One that cannot be read is as good as one that is not there: what needs it will say so.
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

    async fn connect(
        &self,
        origin: &OriginTarget,
        deadline: Instant,
    ) -> Result<Box<dyn OriginStream>, DialError> {
        let OriginAddress::Addresses(target) = &origin.target else {
            return Err(DialError::Offline);
        };
        let addresses = self.resolve_allowed(target).await?;
        let stream = dial_first(&addresses, deadline).await?;
        let Some(name) = &origin.tls else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(name.clone())
            .map_err(|_| DialError::Unreachable("the name of its certificate is none".into()))?;
        let stream = self.tls.connect(name, stream).await;
        let stream = stream.map_err(|error| DialError::Unreachable(format!("TLS: {error}")))?;
        Ok(Box::new(stream))
    }

    /// Every address, each of them judged: one that may not be reached is enough to refuse.
    async fn resolve_allowed(&self, target: &Addresses) -> Result<Vec<SocketAddr>, DialError> {
        let mut all = Vec::new();
        for name in &target.names {
            let found = (self.resolve)(name.clone()).await;
            let found =
                found.map_err(|error| DialError::Unreachable(format!("{name}: {error}")))?;
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

/// The first that takes a connection. Each has an even share of the time that is left.
async fn dial_first(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, DialError> {
    let mut last = DialError::Unreachable("it has no address".to_owned());
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let shares = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let until = Instant::now() + left / shares;
        match timeout_at(until, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "A socket option was refused");
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
        connect
            .map(|stream| stream.unwrap_or(Err(DialError::TimedOut)))
            .boxed()
    }

    /// There is no agent behind an address.
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
#[path = "address_tests.rs"]
mod tests;
