//! Origins with TLS: which CAs the agent trusts, and which server name it uses.

use std::sync::Arc;

use anyhow::{Result, ensure};
use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_protocol::{StreamRefusal, StreamReply, StreamRequest};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::lab::{Agent, Gateway, open, read_to_end};

const NAME: &str = "origin.example.com";

/// A service that echoes the first bytes of every TLS connection.
struct Origin {
    address: String,
    pem: String,
    _serving: TaskHandle<()>,
}

impl Origin {
    async fn start() -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec![NAME.to_owned()])?;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der());
        let key = key.map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let work = async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust our CA aborts here.
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut asked = [0; 5];
                if stream.read_exact(&mut asked).await.is_ok() {
                    drop(stream.write_all(&asked).await);
                    drop(stream.shutdown().await);
                }
            }
        };
        Ok(Self {
            address,
            pem: cert.pem(),
            _serving: Tasks::on_runtime().spawn(work),
        })
    }
}

/// The result of dialing the origin with a server name.
async fn dial_origin(origin: &Origin, tls: &OriginTlsSettings, name: &str) -> Result<StreamReply> {
    let agent = Agent::start(&[&origin.address], tls).await?;
    let gateway = Gateway::start().await?;
    agent.allow(&[&gateway]);
    let connection = gateway.connect(&agent).await?;
    let dial = StreamRequest::Dial {
        connector: crate::lab::connector(),
        session: crate::lab::SESSION.to_owned(),
        target: origin.address.clone(),
        tls: Some(name.to_owned()),
    };
    let (mut send, mut recv, reply) = open(&connection, &dial).await?;
    if reply == StreamReply::Connected {
        send.write_all(b"hello").await?;
        ensure!(read_to_end(&mut recv).await? == b"hello");
    }
    Ok(reply)
}

fn is_unreachable(reply: &StreamReply) -> bool {
    matches!(reply, StreamReply::Refused { refusal, .. } if *refusal == StreamRefusal::OriginUnreachable)
}

#[tokio::test]
async fn an_https_origin_is_trusted_by_authority_and_name() -> Result<()> {
    let origin = Origin::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &origin.pem)?;
    let trusting = OriginTlsSettings {
        ca: Some(file),
        insecure: false,
    };
    ensure!(dial_origin(&origin, &trusting, NAME).await? == StreamReply::Connected);
    ensure!(is_unreachable(
        &dial_origin(&origin, &trusting, "other.example.com").await?
    ));
    ensure!(is_unreachable(
        &dial_origin(&origin, &OriginTlsSettings::default(), NAME).await?
    ));
    Ok(())
}

#[tokio::test]
async fn an_https_origin_need_not_be_trusted_with_insecure() -> Result<()> {
    let origin = Origin::start().await?;
    let careless = OriginTlsSettings {
        ca: None,
        insecure: true,
    };
    let reply = dial_origin(&origin, &careless, "other.example.com").await?;
    ensure!(reply == StreamReply::Connected);
    Ok(())
}
