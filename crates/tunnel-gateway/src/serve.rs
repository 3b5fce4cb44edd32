//! The public listeners: HTTP in, an [`OriginDialer`] out. Requests are served with the current routing
//! table; its content is decided elsewhere.

mod accept;
mod answer;
mod body;
mod core;
mod crew;
mod forward;
mod handle;
mod headers;
mod health;
mod idle;
mod meter;
mod pass;
mod proof;
mod record;
mod socket;
mod upgrade;
pub(crate) mod upload;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use aplomb::{Clock, Tasks};
use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Request, Response};
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use self::body::ResponseBody;
use self::core::ProxyShared;
use self::crew::ConnectionTasks;
use self::handle::ClientInfo;
pub use self::health::{PhaseHandle, ServePhase};
use crate::access::AccessLog;
use crate::certificates;
use crate::dial::OriginDialer;
use crate::limits::{KeyedLimit, ListenerLimits};
use crate::pool::ConnectionPool;
use crate::table::RoutingTable;
use crate::telemetry::GatewayMetrics;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Limits.
    pub limits: ListenerLimits,
    /// Whether to send `X-Aplomb-Reason` and `X-Aplomb-Revision`.
    pub headers: bool,
    /// The access log.
    pub access_log: Option<AccessLog>,
    /// Networks of trusted proxies: their forwarding headers are accepted.
    pub trusted_proxies: Vec<IpNet>,
    /// The hostname for requests whose Host is an IP address or `localhost`. Without it, such requests get
    /// 404.
    pub default_host: Option<String>,
    /// How long it still accepts new connections while draining, because load balancers learn of the shutdown
    /// with a delay.
    pub linger: Duration,
    /// Runtime for tasks.
    pub tasks: Tasks,
    /// Wall-clock time, for the access log.
    pub clock: Clock,
    /// Seed for request ids; must differ between processes.
    pub seed: u64,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            limits: ListenerLimits::default(),
            headers: true,
            access_log: None,
            trusted_proxies: Vec::new(),
            default_host: None,
            linger: Duration::from_millis(500),
            tasks: Tasks::on_runtime(),
            clock: Clock::system(),
            seed: 0,
        }
    }
}

/// The data path. Dropping it aborts everything in flight.
pub struct ProxyServer {
    core: Arc<ProxyShared>,
    linger: Duration,
}

impl ProxyServer {
    /// A server that serves each request with the current content of `table`.
    #[must_use]
    pub fn new(
        settings: ProxySettings,
        table: Arc<ArcSwap<RoutingTable>>,
        dialer: Arc<dyn OriginDialer>,
        telemetry: GatewayMetrics,
    ) -> Self {
        let limits = settings.limits;
        let core = ProxyShared {
            headers: settings.headers,
            access_log: settings.access_log,
            trusted_proxies: settings.trusted_proxies,
            default_host: settings.default_host,
            clock: settings.clock,
            table,
            dialer,
            telemetry,
            pool: ConnectionPool::new(&settings.tasks, &limits),
            crew: ConnectionTasks::new(settings.tasks),
            health: PhaseHandle::default(),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            connections: KeyedLimit::new(limits.connections),
            clients: KeyedLimit::new(limits.connections_per_client),
            requests: KeyedLimit::new(limits.requests_per_tunnel),
            proofs: KeyedLimit::new(limits.requests_per_tunnel),
            seed: settings.seed,
            counter: AtomicU64::new(0),
            limits,
        };
        Self {
            core: Arc::new(core),
            linger: settings.linger,
        }
    }

    /// Serves HTTP on a listener until [`ProxyServer::drain`].
    pub fn http(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + use<> {
        accept::accept(self.core.clone(), listener, None)
    }

    /// Serves HTTPS on a listener with the table's certificates until [`ProxyServer::drain`].
    pub fn tls(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + use<> {
        let tls = TlsAcceptor::from(certificates::config(self.core.table.clone()));
        accept::accept(self.core.clone(), listener, Some(tls))
    }

    /// Responds to one request as if it had come over a connection from `peer`.
    pub async fn handle<B>(
        &self,
        request: Request<B>,
        peer: SocketAddr,
        tls: bool,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let address = peer;
        handle::handle(&self.core, request, ClientInfo { address, tls }).await
    }

    /// The readiness phase. The controller sets it to [`ServePhase::Serving`] with the first table.
    #[must_use]
    pub fn health(&self) -> PhaseHandle {
        self.core.health.clone()
    }

    /// Shuts down gracefully: readiness fails, connections close after their response, then no more are
    /// accepted. Requests in flight and upgraded connections may continue until the deadline.
    pub async fn drain(&self, deadline: Instant) {
        let core = &self.core;
        core.health.reach(ServePhase::Draining);
        core.draining.cancel();
        sleep_until(deadline.min(Instant::now() + self.linger)).await;
        core.closing.cancel();
        if timeout_at(deadline, core.crew.empty()).await.is_err() {
            let many = core.crew.len();
            tracing::warn!(
                many,
                "Drain deadline passed; closing open connections"
            );
        }
        core.crew.dismiss();
        core.health.reach(ServePhase::Stopped);
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.core.closing.cancel();
        self.core.crew.dismiss();
    }
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("phase", &self.core.health.phase())
            .field("crew", &self.core.crew)
            .finish_non_exhaustive()
    }
}
