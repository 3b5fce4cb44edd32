//! The public listeners: HTTP in, an [`OriginDialer`] out. Requests are served with the current routing
//! table; its content is decided elsewhere.

mod accept;
mod connection_tasks;
mod error_response;
mod forward;
mod handle;
mod headers;
mod matched_route;
mod proof;
pub(crate) mod request_body;
mod request_record;
mod response_body;
mod shared;
mod streams;
mod upgrade;

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

use self::connection_tasks::ConnectionTasks;
use self::handle::ClientInfo;
pub use self::response_body::ResponseBody;
use self::shared::ProxyShared;
pub use self::shared::{PhaseHandle, ServePhase};
use crate::access::AccessLog;
use crate::certificates;
use crate::limits::{KeyedLimit, ListenerLimits};
use crate::origin::OriginDialer;
use crate::origin::pool::ConnectionPool;
use crate::routing::RoutingTable;
use crate::telemetry::GatewayMetrics;

#[derive(Clone, Debug)]
pub struct ProxySettings {
    pub limits: ListenerLimits,
    /// Whether to send `X-Aplomb-Reason` and `X-Aplomb-Revision`.
    pub headers: bool,
    pub access_log: Option<AccessLog>,
    /// Networks of trusted proxies: their forwarding headers are accepted.
    pub trusted_proxies: Vec<IpNet>,
    /// The hostname for requests whose Host is an IP address or `localhost`. Without it, such requests get
    /// 404.
    pub default_host: Option<String>,
    /// How long it still accepts new connections while draining, because load balancers learn of the shutdown
    /// with a delay.
    pub drain_delay: Duration,
    pub tasks: Tasks,
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
            drain_delay: Duration::from_millis(500),
            tasks: Tasks::on_runtime(),
            clock: Clock::system(),
            seed: 0,
        }
    }
}

/// The data path. Dropping it aborts everything in flight.
pub struct ProxyServer {
    shared: Arc<ProxyShared>,
    drain_delay: Duration,
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
            connection_tasks: ConnectionTasks::new(settings.tasks),
            phase: PhaseHandle::default(),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            connection_limit: KeyedLimit::new(limits.connections),
            client_limit: KeyedLimit::new(limits.connections_per_client),
            request_limit: KeyedLimit::new(limits.requests_per_tunnel),
            proof_limit: KeyedLimit::new(limits.requests_per_tunnel),
            seed: settings.seed,
            counter: AtomicU64::new(0),
            limits,
        };
        Self {
            shared: Arc::new(core),
            drain_delay: settings.drain_delay,
        }
    }

    /// Serves HTTP on a listener until [`ProxyServer::drain`].
    pub fn serve_http(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + use<> {
        accept::accept(self.shared.clone(), listener, None)
    }

    /// Serves HTTPS on a listener with the table's certificates until [`ProxyServer::drain`].
    pub fn serve_tls(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + use<> {
        let tls = TlsAcceptor::from(certificates::server_config(self.shared.table.clone()));
        accept::accept(self.shared.clone(), listener, Some(tls))
    }

    /// Responds to one request as if it had come over a connection from `peer`.
    pub async fn handle<B>(&self, request: Request<B>, peer: SocketAddr, tls: bool) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let address = peer;
        handle::handle(&self.shared, request, ClientInfo { address, tls }).await
    }

    /// The readiness phase. The controller sets it to [`ServePhase::Serving`] with the first table.
    #[must_use]
    pub fn health(&self) -> PhaseHandle {
        self.shared.phase.clone()
    }

    /// Shuts down gracefully: readiness fails, connections close after their response, then no more are
    /// accepted. Requests in flight and upgraded connections may continue until the deadline.
    pub async fn drain(&self, deadline: Instant) {
        let core = &self.shared;
        core.phase.advance_to(ServePhase::Draining);
        core.draining.cancel();
        sleep_until(deadline.min(Instant::now() + self.drain_delay)).await;
        core.closing.cancel();
        if timeout_at(deadline, core.connection_tasks.wait_empty()).await.is_err() {
            let many = core.connection_tasks.len();
            tracing::warn!(many, "Drain deadline passed; closing open connections");
        }
        core.connection_tasks.abort_all();
        core.phase.advance_to(ServePhase::Stopped);
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.shared.connection_tasks.abort_all();
    }
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("phase", &self.shared.phase.phase())
            .field("crew", &self.shared.connection_tasks)
            .finish_non_exhaustive()
    }
}
