//! The gateway as a process: what a program sets, how it starts, and how it goes without dropping a
//! request. Listeners are bound before anything else and accept once the first table is complete.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aplomb::tasks::TaskHandle;
use aplomb::{Clock, Tasks, Telemetry, Trigger};
use arc_swap::ArcSwap;
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::AccessLog;
use crate::address::AddressDialer;
use crate::sessions::{AgentDialer, AgentSessions, SessionManager, TargetDialer, bind_endpoint, secret_key};
use crate::control::{ControlHandle, GatewayDeps, pass_key};
use crate::guard::AddressPolicy;
use crate::limits::ListenerLimits;
use crate::office::ReplicaInfo;
use crate::proxy::{ProxyServer, ProxySettings, ServePhase};
use crate::table::RoutingTable;
use crate::telemetry::GatewayMetrics;

/// What a program sets.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// The namespace of the GatewayReplicas.
    pub namespace: String,
    /// What this replica is called. No two may share it.
    pub identity: String,
    /// Where HTTP is served.
    pub listen: SocketAddr,
    /// Where HTTPS is served.
    pub listen_tls: Option<SocketAddr>,
    /// Under which address the operator reaches the listeners, if not the one they are bound to.
    pub advertise: Option<IpAddr>,
    /// Where metrics and health are served.
    pub admin: Option<SocketAddr>,
    /// Where the iroh key is kept; without, it is another in each life.
    pub key_file: Option<PathBuf>,
    /// The address of the QUIC socket; any, if not said.
    pub quic_bind: Option<SocketAddr>,
    /// Relays, beside those of the ConnectorClasses.
    pub relays: Vec<String>,
    /// How much is taken on.
    pub limits: ListenerLimits,
    /// Whether `X-Aplomb-Reason` and `X-Aplomb-Revision` are sent.
    pub headers: bool,
    /// Whether each request is noted on standard output.
    pub access_log: bool,
    /// Clients in these networks are proxies.
    pub trusted_proxies: Vec<IpNet>,
    /// The hostname that a request is for whose Host is an IP address or `localhost`.
    pub default_host: Option<String>,
    /// Networks that backends of every class may reach although they are not public.
    pub allow_networks: Vec<IpNet>,
    /// Networks that backends may not reach.
    pub deny_networks: Vec<IpNet>,
    /// Authorities that certificates of https origins may come from, beside the system's: PEM.
    pub origin_ca: Option<Vec<u8>>,
    /// How long after its last heartbeat this replica counts as gone.
    pub lease_seconds: u32,
    /// How long requests under way may take at the end.
    pub drain: Duration,
}

impl GatewaySettings {
    /// The usual settings of a replica called `identity` that listens on `listen`.
    #[must_use]
    pub fn new(identity: &str, listen: SocketAddr) -> Self {
        Self {
            namespace: "aplomb-system".to_owned(),
            identity: identity.to_owned(),
            listen,
            listen_tls: None,
            advertise: None,
            admin: None,
            key_file: None,
            quic_bind: None,
            relays: Vec::new(),
            limits: ListenerLimits::default(),
            headers: true,
            access_log: false,
            trusted_proxies: Vec::new(),
            default_host: None,
            allow_networks: Vec::new(),
            deny_networks: Vec::new(),
            origin_ca: None,
            lease_seconds: 15,
            drain: Duration::from_secs(30),
        }
    }
}

/// Why a gateway cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// Nobody could reach the listeners.
    #[error("it listens on {0}, which nobody can connect to: say which address others reach it at")]
    NoAddress(IpAddr),
    /// The key.
    #[error(transparent)]
    Key(#[from] crate::sessions::KeyError),
    /// The QUIC socket.
    #[error(transparent)]
    Bind(#[from] crate::sessions::BindError),
    /// The way to addresses.
    #[error(transparent)]
    Address(#[from] crate::address::AddressError),
    /// The access log.
    #[error("the access log cannot be written: {0}")]
    AccessLog(std::io::Error),
    /// The control side.
    #[error(transparent)]
    Control(#[from] aplomb::Error),
}

/// Runs a gateway until `shutdown`, then lets what is under way end.
///
/// # Errors
/// It cannot start, or its watches cannot be had.
pub async fn run(
    client: kube::Client,
    settings: GatewaySettings,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), GatewayError> {
    let tasks = Tasks::on_runtime();
    let listeners = Listeners::bind(&settings).await?;
    let key = secret_key(settings.key_file.as_deref())?;
    let endpoint = bind_endpoint(key, &settings.relays, settings.quic_bind).await?;
    let place = replica_info(&settings, &listeners, endpoint.id().to_string())?;
    let (poke, table, telemetry) = (
        Trigger::default(),
        Arc::default(),
        GatewayMetrics::default(),
    );
    let (poked, home) = (poke.clone(), pass_key(&settings.namespace));
    let keeper = SessionManager::new(endpoint, tasks.clone(), move || poked.poke(&pass_key));
    let ports = listeners.ports(&settings);
    let server = build_server(&settings, &ports, &tasks, &table, &keeper, &telemetry)?;
    let parts = GatewayDeps {
        sessions: Arc::new(keeper.clone()),
        trigger: poke,
        table,
        health: server.health(),
        clock: Clock::system(),
        tasks: Some(tasks.clone()),
        telemetry: Telemetry::default(),
        gateway: telemetry,
    };
    let (engine, control) = ControlHandle::engine(client, place, settings.admin, parts);
    let stop = CancellationToken::new();
    let ended = engine.run(stop.clone().cancelled_owned());
    let mut engine = tasks.start(ended);
    let accepting = tokio::select! { biased;
        ended = engine.done() => return control_result(ended),
        accepting = serve_until_shutdown(&server, listeners, &tasks, shutdown) => accepting,
    };
    control.delete_replica().await;
    server.drain(Instant::now() + settings.drain).await;
    drop(accepting);
    stop.cancel();
    let ended = engine.join().await;
    keeper.close().await;
    control_result(ended)
}

/// Accepts as soon as there is a table, and returns what accepts at `shutdown`.
async fn serve_until_shutdown(
    server: &ProxyServer,
    listeners: Listeners,
    tasks: &Tasks,
    shutdown: impl Future<Output = ()> + Send,
) -> Vec<TaskHandle<()>> {
    let health = server.health();
    tokio::pin!(shutdown);
    tokio::select! { biased;
        () = &mut shutdown => return Vec::new(),
        () = health.wait_for(ServePhase::Serving) => {}
    }
    let accepting = listeners.accept(server, tasks);
    tracing::info!("Serves");
    shutdown.await;
    accepting
}

fn control_result(ended: Option<aplomb::Result<()>>) -> Result<(), GatewayError> {
    match ended {
        Some(result) => Ok(result?),
        None => Err(aplomb::Error::fault("the control side panicked").into()),
    }
}

fn build_server(
    settings: &GatewaySettings,
    ports: &[u16],
    tasks: &Tasks,
    table: &Arc<ArcSwap<RoutingTable>>,
    keeper: &SessionManager,
    telemetry: &GatewayMetrics,
) -> Result<ProxyServer, GatewayError> {
    let allowed = settings.allow_networks.clone();
    let guard = AddressPolicy::new(allowed, &settings.deny_networks, ports);
    let dialer = TargetDialer {
        agents: Arc::new(AgentDialer(keeper.clone())),
        addresses: Arc::new(AddressDialer::new(guard, settings.origin_ca.as_deref())?),
    };
    let log = || AccessLog::new(std::io::stdout()).map_err(GatewayError::AccessLog);
    let serving = ProxySettings {
        limits: settings.limits.clone(),
        headers: settings.headers,
        access_log: settings.access_log.then(log).transpose()?,
        trusted_proxies: settings.trusted_proxies.clone(),
        default_host: settings.default_host.clone(),
        tasks: tasks.clone(),
        seed: fastrand::Rng::new().u64(..),
        ..ProxySettings::default()
    };
    let (table, telemetry) = (table.clone(), telemetry.clone());
    Ok(ProxyServer::new(
        serving,
        table,
        Arc::new(dialer),
        telemetry,
    ))
}

/// The public listeners.
struct Listeners {
    http: TcpListener,
    tls: Option<TcpListener>,
}

impl Listeners {
    async fn bind(settings: &GatewaySettings) -> Result<Self, GatewayError> {
        Ok(Self {
            http: listen(settings.listen).await?,
            tls: match settings.listen_tls {
                Some(address) => Some(listen(address).await?),
                None => None,
            },
        })
    }

    /// The ports that backends never lead to on this machine.
    fn ports(&self, settings: &GatewaySettings) -> Vec<u16> {
        let bound = std::iter::once(&self.http).chain(&self.tls);
        let bound = bound.filter_map(|it| it.local_addr().ok());
        let bound = bound.chain(settings.admin).map(|it| it.port());
        bound.filter(|port| *port != 0).collect()
    }

    fn accept(self, server: &ProxyServer, tasks: &Tasks) -> Vec<TaskHandle<()>> {
        let http = tasks.start(server.serve_http(self.http));
        let tls = self.tls.map(|tls| tasks.start(server.serve_tls(tls)));
        std::iter::once(http).chain(tls).collect()
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, GatewayError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| GatewayError::Listen(address, error))
}

/// How this replica is known.
fn replica_info(
    settings: &GatewaySettings,
    listeners: &Listeners,
    endpoint_id: String,
) -> Result<ReplicaInfo, GatewayError> {
    let reached = |listener: &TcpListener| {
        let bound = listener.local_addr();
        let bound = bound.map_err(|error| GatewayError::Listen(settings.listen, error))?;
        let ip = settings.advertise.unwrap_or(bound.ip());
        if ip.is_unspecified() {
            return Err(GatewayError::NoAddress(ip));
        }
        Ok(SocketAddr::new(ip, bound.port()).to_string())
    };
    Ok(ReplicaInfo {
        namespace: settings.namespace.clone(),
        identity: settings.identity.clone(),
        listen: reached(&listeners.http)?,
        listen_tls: listeners.tls.as_ref().map(reached).transpose()?,
        endpoint_id,
        lease_seconds: settings.lease_seconds,
        relays: settings.relays.clone(),
    })
}
