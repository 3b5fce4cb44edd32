//! Origins that speak TLS: whom the agent trusts, and by which name.

use std::sync::Arc;

use anyhow::{Result, ensure};
use aplomb::Tasks;
use aplomb::tasks::Task;
use aplomb_api::wire::{Open, Refusal, Reply};
use aplomb_tunnel_agent::tls::TlsSettings;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::lab::{Agent, Gateway, open, rest};

const NAME: &str = "origin.example.com";

/// A service that answers every connection over TLS with what it was sent first.
struct Origin {
    address: String,
    pem: String,
    _serving: Task<()>,
}

impl Origin {
    async fn start() -> Result<Self> {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![NAME.to_owned()])?;
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
                // A client that does not trust us breaks off here.
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
            _serving: Tasks::on_runtime().start(work),
        })
    }
}

/// What comes of dialling the origin under a name.
async fn dialled(origin: &Origin, tls: &TlsSettings, name: &str) -> Result<Reply> {
    let agent = Agent::start(&[&origin.address], tls).await?;
    let gateway = Gateway::start().await?;
    agent.list(&[&gateway]);
    let connection = gateway.connect(&agent).await?;
    let dial = Open::Dial {
        connector: crate::lab::connector(),
        session: crate::lab::SESSION.to_owned(),
        target: origin.address.clone(),
        tls: Some(name.to_owned()),
    };
    let (mut send, mut recv, reply) = open(&connection, &dial).await?;
    if reply == Reply::Connected {
        send.write_all(b"hello").await?;
        ensure!(rest(&mut recv).await? == b"hello");
    }
    Ok(reply)
}

fn is_unreachable(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused { refusal, .. } if *refusal == Refusal::OriginUnreachable)
}

#[tokio::test]
async fn an_https_origin_is_trusted_by_authority_and_name() -> Result<()> {
    let origin = Origin::start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &origin.pem)?;
    let trusting = TlsSettings {
        ca: Some(file),
        insecure: false,
    };
    ensure!(dialled(&origin, &trusting, NAME).await? == Reply::Connected);
    ensure!(is_unreachable(
        &dialled(&origin, &trusting, "other.example.com").await?
    ));
    ensure!(is_unreachable(
        &dialled(&origin, &TlsSettings::default(), NAME).await?
    ));
    Ok(())
}

#[tokio::test]
async fn an_https_origin_need_not_be_trusted_if_told_so() -> Result<()> {
    let origin = Origin::start().await?;
    let careless = TlsSettings {
        ca: None,
        insecure: true,
    };
    let reply = dialled(&origin, &careless, "other.example.com").await?;
    ensure!(reply == Reply::Connected);
    Ok(())
}
