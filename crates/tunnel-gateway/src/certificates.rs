//! TLS by SNI: parses the two PEM files of a Secret and selects the certificate for a hostname. No error
//! message contains key material.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::routing::{RoutingTable, find_entry};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("tls.crt does not contain a PEM certificate")]
    NoCertificate,
    #[error("tls.crt is not valid PEM")]
    UnreadableCertificate,
    #[error("tls.key does not contain a PEM private key")]
    NoKey,
    #[error("tls.key is not valid PEM")]
    UnreadableKey,
    #[error("tls.key has an unsupported key type: use an RSA, ECDSA or Ed25519 key")]
    UnusableKey,
    #[error("tls.key does not match the first certificate in tls.crt")]
    OtherKey,
}

/// The certificate to serve, from `tls.crt` (leaf first, then its chain) and `tls.key`.
///
/// # Errors
/// They cannot be parsed or do not match.
pub fn parse_key_pair(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, CertificateError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| CertificateError::UnreadableCertificate)?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        PemError::NoItemsFound => CertificateError::NoKey,
        _ => CertificateError::UnreadableKey,
    })?;
    let key = aws_lc_rs::sign::any_supported_type(&key).map_err(|_| CertificateError::UnusableKey)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => Err(CertificateError::OtherKey),
        Err(_) => Err(CertificateError::UnreadableCertificate),
    }
}

/// The TLS configuration of a listener. Each handshake reads the current table, so that a replaced Secret
/// takes effect at once.
pub(crate) fn server_config(table: Arc<ArcSwap<RoutingTable>>) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(CertificateByHostname(table)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session does not transfer the certificate, so the client would not see a replacement.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// A handshake without SNI, or for a hostname without a certificate, fails: any other certificate would be
/// another tenant's.
struct CertificateByHostname(Arc<ArcSwap<RoutingTable>>);

impl ResolvesServerCert for CertificateByHostname {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_ascii_lowercase();
        let table = self.0.load();
        let certificates = &table.certificates;
        let wildcard = |suffix: &str| certificates.get(&format!("*.{suffix}"));
        find_entry(certificates, &name, wildcard).cloned()
    }
}

impl fmt::Debug for CertificateByHostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByName")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_that_belongs_together_is_served() {
        let (certificate, key) = pair("a.example.com");
        let certified = parse_key_pair(certificate.as_bytes(), key.as_bytes()).expect("a pair");
        assert_eq!(certified.cert.len(), 1);
    }

    #[test]
    fn mismatches_have_their_own_error_and_do_not_quote_the_key() {
        let (certificate, key) = pair("a.example.com");
        let (_, other) = pair("b.example.com");
        let body: String = key.lines().skip(1).take(1).collect();
        let broken = key.replace(&body, "!!!!");
        let table: [(&str, &str, CertificateError); 6] = [
            ("", &key, CertificateError::NoCertificate),
            (&key, &key, CertificateError::NoCertificate),
            (&certificate, "", CertificateError::NoKey),
            (&certificate, &certificate, CertificateError::NoKey),
            (&certificate, &other, CertificateError::OtherKey),
            (&certificate, &broken, CertificateError::UnreadableKey),
        ];
        for (certificate, key, wanted) in table {
            let error = parse_key_pair(certificate.as_bytes(), key.as_bytes()).expect_err("refused");
            assert_eq!(error, wanted);
            assert!(!error.to_string().contains(&body));
        }
    }
}
