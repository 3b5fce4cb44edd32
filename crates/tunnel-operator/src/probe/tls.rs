//! TLS of the prober. It accepts any certificate for the hostname, regardless of its issuer, because the
//! probe checks which certificate the gateway serves. No secret is sent over this connection.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    Broken,
    NoCertificate,
    /// It has a certificate for other names.
    WrongName,
}

pub(crate) fn client_config() -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(MatchHostname(provider)))
        .with_no_client_auth();
    Arc::new(config)
}

/// Performs a TLS handshake with a listener for `hostname`.
pub(crate) async fn handshake(
    config: &Arc<ClientConfig>,
    stream: TcpStream,
    hostname: &str,
) -> Result<TlsStream<TcpStream>, HandshakeError> {
    let name = ServerName::try_from(hostname.to_owned()).map_err(|_| HandshakeError::WrongName)?;
    let connector = TlsConnector::from(config.clone());
    connector.connect(name, stream).await.map_err(|error| {
        let cause = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::InvalidCertificate(_)) => HandshakeError::WrongName,
            // The alert of a server without a certificate for the name.
            Some(rustls::Error::AlertReceived(_)) => HandshakeError::NoCertificate,
            _ => HandshakeError::Broken,
        }
    })
}

/// Checks that the certificate is valid for the name, and that the server has its key.
#[derive(Debug)]
struct MatchHostname(Arc<CryptoProvider>);

impl ServerCertVerifier for MatchHostname {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_name(&parsed, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
