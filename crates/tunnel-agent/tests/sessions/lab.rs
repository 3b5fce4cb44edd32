//! An agent without an API server, and the gateway's side of a connection to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_tunnel_agent::accept::{AllowedGateways, allowed_gateways};
use aplomb_tunnel_agent::origin::OriginPool;
use aplomb_tunnel_agent::serve::{NetworkConfig, bind, serve};
use aplomb_tunnel_agent::stream_handler::StreamHandler;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_agent::{AgentEvent, ExposedTarget, ExposedTargets};
use aplomb_tunnel_protocol as protocol;
use aplomb_tunnel_protocol::{ALPN, ConnectorId, ProofStatement, StreamReply, StreamRequest};
use iroh::endpoint::{Connection, RecvStream, SendStream};
use iroh::{Endpoint, EndpointAddr, SecretKey, TransportAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) const SESSION: &str = "this-life";
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long a gateway that was removed from the list keeps its connection here.
pub(crate) const UNLISTED_GRACE: Duration = Duration::from_secs(2);

pub(crate) struct Agent {
    pub(crate) endpoint: Endpoint,
    pub(crate) allowed_gateways: watch::Sender<AllowedGateways>,
    pub(crate) released: CancellationToken,
    pub(crate) serving: TaskHandle<()>,
    pub(crate) events: mpsc::UnboundedReceiver<AgentEvent>,
}

impl Agent {
    pub(crate) async fn start(expose: &[&str], tls: &OriginTlsSettings) -> Result<Self> {
        let targets = expose.iter().map(|text| text.parse::<ExposedTarget>());
        let targets: Result<Vec<_>, _> = targets.collect();
        let exposed = ExposedTargets::new(targets.map_err(anyhow::Error::msg)?);
        let secret = SecretKey::generate();
        let origins = OriginPool::new(exposed, tls)?;
        let (sender, events) = mpsc::unbounded_channel();
        let session = SESSION.to_owned();
        let answers = StreamHandler::new(origins, secret.clone(), connector(), session, sender);
        let endpoint = bind(secret, &loopback(), &[]).await?;
        let (sender, receiver) = watch::channel(AllowedGateways::default());
        let released = CancellationToken::new();
        let work = serve(
            endpoint.clone(),
            Arc::new(answers),
            receiver,
            UNLISTED_GRACE,
            released.clone(),
        );
        Ok(Self {
            endpoint,
            allowed_gateways: sender,
            released,
            serving: Tasks::on_runtime().spawn(work),
            events,
        })
    }

    pub(crate) fn allow(&self, gateways: &[&Gateway]) {
        let ids: Vec<String> = gateways.iter().map(|g| g.id()).collect();
        self.allowed_gateways.send_replace(allowed_gateways(&ids));
    }

    pub(crate) fn address(&self) -> EndpointAddr {
        let sockets = self.endpoint.bound_sockets();
        let sockets = sockets.into_iter().map(TransportAddr::Ip);
        EndpointAddr::from_parts(self.endpoint.id(), sockets)
    }
}

fn loopback() -> NetworkConfig {
    NetworkConfig {
        bind: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        ..NetworkConfig::default()
    }
}

/// The gateway's side.
pub(crate) struct Gateway(pub(crate) Endpoint);

impl Gateway {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self(bind(SecretKey::generate(), &loopback(), &[]).await?))
    }

    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }

    pub(crate) async fn connect(&self, agent: &Agent) -> Result<Connection> {
        let connected = timeout(TIMEOUT, self.0.connect(agent.address(), ALPN)).await;
        Ok(connected.context("no connection in time")??)
    }
}

/// Opens a stream with a first message, and reads the response.
pub(crate) async fn open(
    connection: &Connection,
    open: &StreamRequest,
) -> Result<(SendStream, RecvStream, StreamReply)> {
    let work = async {
        let (mut send, mut recv) = connection.open_bi().await?;
        protocol::write_message(&mut send, open).await?;
        let reply = protocol::read_message::<StreamReply>(&mut recv).await?;
        anyhow::Ok((send, recv, reply))
    };
    timeout(TIMEOUT, work).await.context("no answer in time")?
}

/// The Connector of every agent here.
pub(crate) fn connector() -> ConnectorId {
    ConnectorId {
        namespace: "team-a".to_owned(),
        uid: "0b8f3c9e-1f62-4b57-9c0e-55a4b9d7e7c1".to_owned(),
    }
}

pub(crate) fn dial(target: &str) -> StreamRequest {
    StreamRequest::Dial {
        connector: connector(),
        session: SESSION.to_owned(),
        target: target.to_owned(),
        tls: None,
    }
}

pub(crate) fn statement(session: &str) -> ProofStatement {
    ProofStatement {
        nonce: "0f".repeat(32),
        tunnel: "9c7f2f9e-6a1f-4c38-8a7e-0d4f5b2f7f11".to_owned(),
        generation: 3,
        connector: connector(),
        session: session.to_owned(),
    }
}

pub(crate) fn prove(session: &str, target: &str) -> StreamRequest {
    StreamRequest::Prove {
        statement: statement(session),
        within: 600,
        target: target.to_owned(),
        tls: None,
    }
}

/// A service that echoes its input, and appends "goodbye" after the end.
pub(crate) async fn echo() -> Result<(String, TaskHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let work = async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await?;
                write.write_all(b" goodbye").await
            });
        }
    };
    Ok((address, Tasks::on_runtime().spawn(work)))
}

/// Reads to the end of a stream.
pub(crate) async fn read_to_end(recv: &mut RecvStream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = timeout(TIMEOUT, AsyncReadExt::read_to_end(recv, &mut bytes)).await;
    read.context("no end in time")??;
    Ok(bytes)
}

/// The close code of a connection.
pub(crate) async fn close_code(connection: &Connection) -> Result<u64> {
    let closed = timeout(TIMEOUT, connection.closed()).await;
    match closed.context("not closed in time")? {
        iroh::endpoint::ConnectionError::ApplicationClosed(close) => Ok(close.error_code.into_inner()),
        other => anyhow::bail!("closed for another reason: {other}"),
    }
}
