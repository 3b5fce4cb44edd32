//! How TLS is spoken to an https origin: which authorities are trusted, and the one way not to care.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::{Error, Result};

/// Whom to trust.
#[derive(Clone, Debug, Default)]
pub struct OriginTlsSettings {
    /// Authorities beside those of the system, as PEM.
    pub ca: Option<PathBuf>,
    /// Any certificate will do.
    pub insecure: bool,
}

/// What is needed to speak TLS to an origin. The system's authorities are read when they are first
/// needed: most origins speak plain HTTP.
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
            false => builder
                .with_root_certificates(self.roots())
                .with_no_client_auth(),
        };
        // What runs over the stream is HTTP/1.1, whatever else the origin may speak.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        for error in native.errors {
            tracing::warn!(%error, "Authorities of the system cannot be read");
        }
        roots.add_parsable_certificates(native.certs);
        roots.add_parsable_certificates(self.extra.clone());
        roots
    }
}

fn read_authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let fix = |what: String| {
        Error::InvalidSetting(format!(
            "--origin-ca {}: {what}; give a file of certificates as PEM",
            file.display()
        ))
    };
    let read: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| fix(error.to_string()))?;
    match read.is_empty() {
        true => Err(fix("has no certificate".to_owned())),
        false => Ok(read),
    }
}

/// Takes any certificate, as its owner asked for; that the peer has the key to it is still checked.
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
