//! TLS to https origins: which CAs are trusted, and how verification is disabled.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::{Error, Result};

/// TLS settings for origins.
#[derive(Clone, Debug, Default)]
pub struct OriginTlsSettings {
    /// CAs in addition to those of the system, as PEM.
    pub ca: Option<PathBuf>,
    pub insecure: bool,
}

/// Creates TLS configurations. The system's CAs are loaded on first use, because most origins use plain HTTP.
#[derive(Debug)]
pub(crate) struct OriginTls {
    extra: Vec<CertificateDer<'static>>,
    insecure: bool,
    config: OnceLock<Arc<ClientConfig>>,
}

impl OriginTls {
    pub(crate) fn new(settings: &OriginTlsSettings) -> Result<Self> {
        let extra = settings.ca.as_deref().map(read_authorities).transpose()?;
        Ok(Self {
            extra: extra.unwrap_or_default(),
            insecure: settings.insecure,
            config: OnceLock::new(),
        })
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.config.get_or_init(|| Arc::new(self.build())).clone()
    }

    fn build(&self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions");
        let mut config = match self.insecure {
            true => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
                .with_no_client_auth(),
            false => builder.with_root_certificates(self.roots()).with_no_client_auth(),
        };
        // The stream carries HTTP/1.1, whatever else the origin supports.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        for error in native.errors {
            tracing::warn!(%error, "Failed to read the system CA certificates");
        }
        roots.add_parsable_certificates(native.certs);
        roots.add_parsable_certificates(self.extra.clone());
        roots
    }
}

fn read_authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let fix = |what: String| {
        Error::InvalidSetting(format!(
            "--origin-ca {}: {what}; use a file of PEM certificates",
            file.display()
        ))
    };
    let read: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| fix(error.to_string()))?;
    match read.is_empty() {
        true => Err(fix("does not contain a certificate".to_owned())),
        false => Ok(read),
    }
}

/// Accepts any certificate, as configured. The signature that proves possession of its key is still verified.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
