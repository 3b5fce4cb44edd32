//! TLS by SNI, with the certificates of the table.

use std::net::SocketAddr;
use std::sync::Arc;

use aplomb_tunnel_gateway::certificates;
use aplomb_tunnel_gateway::routing::RoutingTable;
use http::Request;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::lab::{Client, Lab, full, text};

/// Serves a new certificate for a name.
fn certify(lab: &Lab, name: &str) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("made");
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let certified = certificates::parse_key_pair(pem.as_bytes(), key.as_bytes()).expect("a pair");
    let mut table = RoutingTable::clone(&lab.table.load());
    table.certificates.insert(name.to_owned(), Arc::new(certified));
    lab.table.store(Arc::new(table));
    made.cert.der().clone()
}

async fn connect(
    address: SocketAddr,
    name: &str,
    trusted: &CertificateDer<'static>,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn both_protocols_are_served_over_tls() {
    let lab = Lab::new();
    let trusted = certify(&lab, "a.example.com");
    let address = lab.listen(true).await;
    for (alpn, two) in [("h2", true), ("http/1.1", false)] {
        let stream = connect(address, "a.example.com", &trusted, &[alpn]).await;
        let stream = stream.expect("a handshake");
        let chosen = stream.get_ref().1.alpn_protocol();
        assert_eq!(chosen, Some(alpn.as_bytes()));
        let (mut client, _open) = Client::over(&lab.tasks, stream, two).await;
        let request = Request::get("https://a.example.com/").body(full(""));
        let response = client.send(request.expect("a request")).await;
        let reply = text(response.expect("a response").into_body()).await;
        assert!(reply.contains("x-forwarded-proto: https"), "{reply}");
    }
}

#[tokio::test]
async fn a_name_without_a_certificate_is_shown_nothing() {
    let lab = Lab::new();
    let trusted = certify(&lab, "a.example.com");
    let address = lab.listen(true).await;
    for name in ["b.example.com", "192.0.2.1"] {
        let refused = connect(address, name, &trusted, &[]).await;
        assert!(refused.is_err(), "{name}");
    }
}

#[tokio::test]
async fn a_replaced_certificate_is_served_at_the_next_handshake() {
    let lab = Lab::new();
    let old = certify(&lab, "a.example.com");
    let address = lab.listen(true).await;
    let before = connect(address, "a.example.com", &old, &["http/1.1"]).await;
    let before = before.expect("a handshake");
    let (mut client, _open) = Client::over(&lab.tasks, before, false).await;
    let new = certify(&lab, "a.example.com");
    let after = connect(address, "a.example.com", &new, &[]).await;
    after.expect("the new certificate is served");
    let stale = connect(address, "a.example.com", &old, &[]).await;
    assert!(stale.is_err(), "the old certificate is not served");
    let request = Request::get("https://a.example.com/").body(full(""));
    let response = client.send(request.expect("a request")).await;
    let response = response.expect("open connections keep working");
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_wildcard_certificate_serves_its_names() {
    let lab = Lab::new();
    let trusted = certify(&lab, "*.example.com");
    let address = lab.listen(true).await;
    let stream = connect(address, "b.example.com", &trusted, &[]).await;
    stream.expect("a handshake");
}
