//! An agent that publishes no address, reached through a real relay on loopback. `tools/make/relay` builds
//! the relay and runs this test; otherwise it is ignored.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aplomb::Tasks;
use aplomb::tasks::TaskHandle;
use aplomb_api::tunnel::ConnectionDetails;
use aplomb_tunnel_agent::ExposedTargets;
use aplomb_tunnel_agent::accept::{AllowedGateways, UNLISTED_GRACE, allowed_gateways};
use aplomb_tunnel_agent::origin::OriginPool;
use aplomb_tunnel_agent::publish::AgentIdentity;
use aplomb_tunnel_agent::serve::{NetworkConfig, bind, serve};
use aplomb_tunnel_agent::stream_handler::StreamHandler;
use aplomb_tunnel_agent::tls::OriginTlsSettings;
use aplomb_tunnel_protocol as protocol;
use aplomb_tunnel_protocol::{ALPN, ConnectorId, StreamReply, StreamRequest};
use iroh::endpoint::{Connection, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode, RelayUrl, SecretKey, Watcher};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

const SESSION: &str = "this-life";
const TIMEOUT: Duration = Duration::from_secs(120);

/// A relay that stops with the test.
struct Relay {
    url: String,
    _process: Child,
    _folder: tempfile::TempDir,
}

impl Relay {
    async fn start() -> Result<Self> {
        let program = std::env::var("APLOMB_IROH_RELAY").context("run tools/make/relay")?;
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("relay.toml");
        std::fs::write(&config, "enable_metrics = false\nhttp_bind_addr = \"127.0.0.1:0\"\n")?;
        let mut process = Command::new(program)
            .args(["--dev", "--config-path"])
            .arg(&config)
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let log = process.stderr.take().context("its log is piped")?;
        let address = timeout(TIMEOUT, relay_address(log)).await??;
        Ok(Self {
            url: format!("http://{address}"),
            _process: process,
            _folder: folder,
        })
    }
}

/// The address that the relay prints.
async fn relay_address(log: impl tokio::io::AsyncRead + Unpin) -> Result<SocketAddr> {
    let mut lines = BufReader::new(log).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, address)) = line.split_once("serving on ") {
            return Ok(address.trim().parse()?);
        }
    }
    anyhow::bail!("the relay ended")
}

/// The details that the agent would publish, once there are any.
async fn published_details(endpoint: &Endpoint) -> Result<ConnectionDetails> {
    let identity = AgentIdentity {
        session: SESSION.to_owned(),
        version: "0".to_owned(),
        device: None,
        relay_only: true,
    };
    let mut address = endpoint.watch_addr();
    loop {
        if let Some(details) = identity.details(&address.get()) {
            return Ok(details);
        }
        address.updated().await?;
    }
}

/// An agent that publishes no address.
struct Agent {
    endpoint: Endpoint,
    _allowed_gateways: watch::Sender<AllowedGateways>,
    _serving: TaskHandle<()>,
}

impl Agent {
    async fn start(relay: &Relay, origin: &str, gateway: &Endpoint) -> Result<Self> {
        let secret = SecretKey::generate();
        let network = NetworkConfig {
            bind: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            relay_only: true,
            ..NetworkConfig::default()
        };
        let endpoint = bind(secret.clone(), &network, std::slice::from_ref(&relay.url)).await?;
        let exposed = ExposedTargets::new(vec![origin.parse().map_err(anyhow::Error::msg)?]);
        let origins = OriginPool::new(exposed, &OriginTlsSettings::default())?;
        let (session, events) = (SESSION.to_owned(), mpsc::unbounded_channel().0);
        let answers = StreamHandler::new(origins, secret, ConnectorId::default(), session, events);
        let (sender, listed) = watch::channel(allowed_gateways(&[gateway.id().to_string()]));
        let work = serve(
            endpoint.clone(),
            Arc::new(answers),
            listed,
            UNLISTED_GRACE,
            CancellationToken::new(),
        );
        Ok(Self {
            endpoint,
            _allowed_gateways: sender,
            _serving: Tasks::on_runtime().spawn(work),
        })
    }
}

/// A service that echoes one connection.
async fn echo() -> Result<(String, TaskHandle<std::io::Result<u64>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let origin = listener.local_addr()?.to_string();
    let work = async move {
        let (mut stream, _) = listener.accept().await?;
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await
    };
    Ok((origin, Tasks::on_runtime().spawn(work)))
}

/// Sends bytes to the origin and reads the echo.
async fn exchange(connection: &Connection, origin: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let dial = StreamRequest::Dial {
        connector: ConnectorId::default(),
        session: SESSION.to_owned(),
        target: origin.to_owned(),
        tls: None,
    };
    protocol::write_message(&mut send, &dial).await?;
    ensure!(protocol::read_message::<StreamReply>(&mut recv).await? == StreamReply::Connected);
    send.write_all(bytes).await?;
    send.finish()?;
    let mut got = Vec::new();
    AsyncReadExt::read_to_end(&mut recv, &mut got).await?;
    Ok(got)
}

#[tokio::test]
#[ignore = "needs a relay: tools/make/relay"]
async fn an_agent_without_addresses_is_reached_through_a_relay() -> Result<()> {
    let relay = Relay::start().await?;
    let (origin, _echo) = echo().await?;
    // No IP transport: the only path to the agent is the relay.
    let gateway = Endpoint::builder(presets::Minimal)
        .clear_ip_transports()
        .relay_mode(RelayMode::custom([relay.url.parse::<RelayUrl>()?]))
        .bind()
        .await?;
    let agent = Agent::start(&relay, &origin, &gateway).await?;
    let began = Instant::now();
    let details = timeout(TIMEOUT, published_details(&agent.endpoint)).await??;
    ensure!(details.public_key.addresses.is_empty());
    let through = details.public_key.home_relay.context("a relay")?;
    println!("published {through} after {:.1?}", began.elapsed());
    let address = EndpointAddr::new(details.public_key.id.parse()?);
    let address = address.with_relay_url(through.parse()?);
    let connection = timeout(TIMEOUT, gateway.connect(address, ALPN)).await??;
    let sent = vec![7; 100_000];
    let got = timeout(TIMEOUT, exchange(&connection, &origin, &sent)).await??;
    ensure!(got == sent);
    println!("100,000 bytes echoed through the relay after {:.1?}", began.elapsed());
    Ok(())
}
