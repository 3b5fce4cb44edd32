//! Certificates: an authority and a serving certificate, made anew for each server.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// Names every box answers to, besides the address it listens on.
const NAMES: [&str; 6] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "127.0.0.1",
    "::1",
];

/// What a TLS listener needs, and the authority its clients trust.
#[derive(Clone, Debug)]
pub struct Identity {
    /// PEM of the authority.
    pub ca_pem: String,
    pub(super) config: Arc<ServerConfig>,
}

/// Why certificates could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Identity {
    /// An identity for the names and addresses clients use.
    ///
    /// # Errors
    /// A name that cannot stand in a certificate.
    pub fn generate(address: IpAddr) -> Result<Self, Error> {
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        ca.distinguished_name
            .push(DnType::CommonName, "aplomb-box-ca");
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let config = serving(&Issuer::new(ca, ca_key), address)?;
        Ok(Self {
            ca_pem,
            config: Arc::new(config),
        })
    }
}

/// The side that serves: a certificate for every name clients may use, and both protocols.
fn serving(issuer: &Issuer<'_, KeyPair>, address: IpAddr) -> Result<ServerConfig, Error> {
    let key = KeyPair::generate()?;
    let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
    names.push(address.to_string());
    names.sort();
    names.dedup();
    let mut leaf = CertificateParams::new(names)?;
    leaf.distinguished_name
        .push(DnType::CommonName, "aplomb-box");
    let leaf = leaf.signed_by(&key, issuer)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], private)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
