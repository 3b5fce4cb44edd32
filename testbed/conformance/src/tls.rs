//! A bare TLS connection to a server, for requests no HTTP client would send.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::server::Connection;

/// Connects to `https://host:port`, trusting one authority.
///
/// # Errors
/// When the server does not answer.
pub async fn connect(url: &str, authority_pem: &str) -> Result<Connection> {
    let address = url.strip_prefix("https://").context("not an https URL")?;
    let address = address.trim_end_matches('/');
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority_pem.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address)
        .await
        .with_context(|| format!("connecting to {url}"))?;
    let name = ServerName::try_from("127.0.0.1")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
    Ok(Box::new(stream))
}
