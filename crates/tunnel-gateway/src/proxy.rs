//! The public listeners: HTTP in, a [`OriginDialer`] out. Requests are served by the routing table of the
//! moment; nothing here decides what is in it.

mod accept;
mod error_response;
mod response_body;
mod shared;
mod connection_tasks;
mod forward;
mod handle;
mod headers;
mod health;
mod idle;
mod meter;
mod matched_route;
mod proof;
mod request_record;
mod socket;
mod upgrade;
pub(crate) mod request_body;

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

pub use self::response_body::ResponseBody;
use self::shared::ProxyShared;
use self::connection_tasks::ConnectionTasks;
use self::handle::ClientInfo;
pub use self::health::{PhaseHandle, ServePhase};
use crate::access::AccessLog;
use crate::certificates;
use crate::dial::OriginDialer;
use crate::limits::{KeyedLimit, ListenerLimits};
use crate::pool::ConnectionPool;
use crate::table::RoutingTable;
use crate::telemetry::GatewayMetrics;

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// How much it takes on.
    pub limits: ListenerLimits,
    /// Whether `X-Aplomb-Reason` and `X-Aplomb-Revision` are sent.
    pub headers: bool,
    /// Where each request is noted.
    pub access_log: Option<AccessLog>,
    /// Clients in these networks are proxies: what they say of their own clients is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The hostname that a request is for whose Host is an IP address or `localhost`; without, it is
    /// for nobody.
    pub default_host: Option<String>,
    /// How long, once it is told to go, it still takes new connections: those who send them hear of it
    /// only after a moment.
    pub drain_delay: Duration,
    /// Where its tasks run.
    pub tasks: Tasks,
    /// Wall time, for the access log.
    pub clock: Clock,
    /// Where names of requests come from; another for each process.
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

/// The data path. Dropping it breaks off everything it serves.
pub struct ProxyServer {
    shared: Arc<ProxyShared>,
    drain_delay: Duration,
}

impl ProxyServer {
    /// A server that serves what `table` says at the moment of each request.
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

    /// Serves HTTP on a listener, until [`ProxyServer::drain`].
    pub fn serve_http(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + use<> {
        accept::accept(self.shared.clone(), listener, None)
    }

    /// Serves HTTPS on a listener, with the table's certificates, until [`ProxyServer::drain`].
    pub fn serve_tls(&self, listener: TcpListener) -> impl Future<Output = ()> + Send + use<> {
        let tls = TlsAcceptor::from(certificates::server_config(self.shared.table.clone()));
        accept::accept(self.shared.clone(), listener, Some(tls))
    }

    /// Answers one request, as if it had come over a connection from `peer`.
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
        handle::handle(&self.shared, request, ClientInfo { address, tls }).await
    }

    /// Whether it wants traffic. Whoever builds the first table makes it [`ServePhase::Serving`].
    #[must_use]
    pub fn health(&self) -> PhaseHandle {
        self.shared.phase.clone()
    }

    /// Goes away in order: it is not ready any more, connections are closed after their response, then
    /// nothing more is accepted. Requests under way and upgraded connections have until the deadline.
    pub async fn drain(&self, deadline: Instant) {
        let core = &self.shared;
        core.phase.advance_to(ServePhase::Draining);
        core.draining.cancel();
        sleep_until(deadline.min(Instant::now() + self.drain_delay)).await;
        core.closing.cancel();
        if timeout_at(deadline, core.connection_tasks.wait_empty()).await.is_err() {
            let many = core.connection_tasks.len();
            tracing::warn!(
                many,
                "The deadline has come: what is under way is broken off"
            );
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
