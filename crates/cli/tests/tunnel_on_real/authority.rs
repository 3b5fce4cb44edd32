//! A certificate authority for listeners and https origins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Its certificate, for `curl --cacert` and `--origin-ca`.
    pub(crate) path: PathBuf,
}

/// A certificate that it issued.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
    config: Arc<ServerConfig>,
}

impl Issued {
    /// The configuration of a server with this certificate.
    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl Authority {
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = "authority of the test";
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let path = dir.join("authority.pem");
        std::fs::write(&path, issuer.pem())?;
        Ok(Self { issuer, path })
    }

    /// Issues a certificate for `name`, with this serial number.
    pub(crate) fn issue(&self, name: &str, serial: u64) -> Result<Issued> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(serial.into());
        let certificate = params.signed_by(&key, &self.issuer)?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        Ok(Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            config: Arc::new(config),
        })
    }
}
