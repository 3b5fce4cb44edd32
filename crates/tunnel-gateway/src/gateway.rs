//! The gateway process: its settings, its startup, and its shutdown without dropped requests. Listeners are
//! bound first and accept connections once the first table is complete.

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
use crate::control::context::ReplicaInfo;
use crate::control::{ControlHandle, GatewayDeps, pass_key};
use crate::limits::ListenerLimits;
use crate::origin::address::AddressDialer;
use crate::origin::policy::AddressPolicy;
use crate::proxy::{ProxyServer, ProxySettings, ServePhase};
use crate::routing::RoutingTable;
use crate::sessions::{AgentDialer, AgentSessions, SessionManager, TargetDialer, bind_endpoint, secret_key};
use crate::telemetry::GatewayMetrics;

#[derive(Clone, Debug)]
pub struct GatewaySettings {
    pub namespace: String,
    /// Identity of this replica. Must be unique.
    pub identity: String,
    pub listen: SocketAddr,
    pub listen_tls: Option<SocketAddr>,
    /// IP address at which the operator reaches the listeners, if it is not the bound one.
    pub advertise: Option<IpAddr>,
    /// Address of metrics and health endpoints.
    pub admin: Option<SocketAddr>,
    /// File of the iroh key. Without it, each process generates a new key.
    pub key_file: Option<PathBuf>,
    /// Address of the QUIC socket; any if unset.
    pub quic_bind: Option<SocketAddr>,
    /// Relays, in addition to those of the ConnectorClasses.
    pub relays: Vec<String>,
    pub limits: ListenerLimits,
    /// Whether to send `X-Aplomb-Reason` and `X-Aplomb-Revision`.
    pub headers: bool,
    pub access_log: bool,
    pub trusted_proxies: Vec<IpNet>,
    /// The hostname for requests whose Host is an IP address or `localhost`.
    pub default_host: Option<String>,
    /// Networks that backends of every class may reach although they are not public.
    pub allow_networks: Vec<IpNet>,
    /// Networks that backends may not reach.
    pub deny_networks: Vec<IpNet>,
    /// PEM certificates of CAs for https origins, in addition to the system's.
    pub origin_ca: Option<Vec<u8>>,
    /// How long after its last heartbeat this replica counts as dead.
    pub lease_seconds: u32,
    /// How long requests in flight may take on shutdown.
    pub drain: Duration,
}

impl GatewaySettings {
    /// Default settings of a replica named `identity` that listens on `listen`.
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

#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("{0} cannot be reached from other hosts; set --advertise")]
    NoAddress(IpAddr),
    #[error(transparent)]
    Key(#[from] crate::sessions::KeyError),
    #[error(transparent)]
    Bind(#[from] crate::sessions::BindError),
    #[error(transparent)]
    Address(#[from] crate::origin::address::AddressError),
    #[error("cannot write the access log: {0}")]
    AccessLog(std::io::Error),
    #[error(transparent)]
    Control(#[from] aplomb::Error),
}

/// Runs a gateway until `shutdown`, then waits for requests in flight.
///
/// # Errors
/// It cannot start, or its watches cannot be established.
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
    let (poke, table, telemetry) = (Trigger::default(), Arc::default(), GatewayMetrics::default());
    let (poked, home) = (poke.clone(), pass_key(&settings.namespace));
    let keeper = SessionManager::new(endpoint, tasks.clone(), move || poked.enqueue(&home));
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
    let mut engine = tasks.spawn(ended);
    let accepting = tokio::select! { biased;
        ended = engine.wait() => return control_result(ended),
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

/// Accepts connections once there is a table, and returns the accept tasks at `shutdown`.
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
    tracing::info!("Serving traffic");
    shutdown.await;
    accepting
}

fn control_result(ended: Option<aplomb::Result<()>>) -> Result<(), GatewayError> {
    match ended {
        Some(result) => Ok(result?),
        None => Err(aplomb::Error::fault("the controller panicked").into()),
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
    Ok(ProxyServer::new(serving, table, Arc::new(dialer), telemetry))
}

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

    /// The local ports that backends must never reach.
    fn ports(&self, settings: &GatewaySettings) -> Vec<u16> {
        let bound = std::iter::once(&self.http).chain(&self.tls);
        let bound = bound.filter_map(|it| it.local_addr().ok());
        let bound = bound.chain(settings.admin).map(|it| it.port());
        bound.filter(|port| *port != 0).collect()
    }

    fn accept(self, server: &ProxyServer, tasks: &Tasks) -> Vec<TaskHandle<()>> {
        let http = tasks.spawn(server.serve_http(self.http));
        let tls = self.tls.map(|tls| tasks.spawn(server.serve_tls(tls)));
        std::iter::once(http).chain(tls).collect()
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, GatewayError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| GatewayError::Listen(address, error))
}

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
