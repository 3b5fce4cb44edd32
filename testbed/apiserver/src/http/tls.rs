//! Certificates: an authority, which lasts as long as the cluster, and a serving certificate, made
//! anew for each start.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use crate::storage::Secrets;

/// Names every box answers to, besides the address it listens on.
const NAMES: [&str; 6] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "127.0.0.1",
    "::1",
];

/// Names of what is kept of the authority.
const CA_KEY: &str = "ca.key";
const CA_CERTIFICATE: &str = "ca.crt";

/// What a TLS listener needs, and the authority its clients trust.
#[derive(Clone, Debug)]
pub struct Identity {
    /// PEM of the authority.
    pub ca_pem: String,
    pub(crate) config: Arc<ServerConfig>,
}

/// Why certificates could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Kept(#[from] std::io::Error),
}

impl Identity {
    /// An identity for the names and addresses clients use.
    ///
    /// # Errors
    /// A name that cannot stand in a certificate.
    pub fn generate(address: IpAddr) -> Result<Self, Error> {
        Self::of(&Secrets::default(), address)
    }

    /// An identity of the authority that is kept with a cluster, which is made if there is none.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub fn of(secrets: &Secrets, address: IpAddr) -> Result<Self, Error> {
        let key = secrets.get_or_make::<Error>(CA_KEY, || Ok(KeyPair::generate()?.serialize_pem()))?;
        let ca_key = KeyPair::from_pem(&key)?;
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        ca.distinguished_name.push(DnType::CommonName, "aplomb-box-ca");
        let ca_pem = secrets.get_or_make::<Error>(CA_CERTIFICATE, || Ok(ca.self_signed(&ca_key)?.pem()))?;
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
    leaf.distinguished_name.push(DnType::CommonName, "aplomb-box");
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
