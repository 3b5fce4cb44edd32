//! What every request of a server shares.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aplomb::Clock;
use arc_swap::ArcSwap;
use ipnet::IpNet;
use tokio_util::sync::CancellationToken;

use super::connection_tasks::ConnectionTasks;
use super::health::PhaseHandle;
use crate::access::AccessLog;
use crate::dial::OriginDialer;
use crate::limits::{KeyedLimit, ListenerLimits};
use crate::pool::ConnectionPool;
use crate::table::RoutingTable;
use crate::telemetry::GatewayMetrics;

pub(super) struct ProxyShared {
    pub(super) limits: ListenerLimits,
    /// Whether `X-Aplomb-*` headers are sent.
    pub(super) headers: bool,
    pub(super) access_log: Option<AccessLog>,
    pub(super) trusted_proxies: Vec<IpNet>,
    pub(super) default_host: Option<String>,
    pub(super) clock: Clock,
    pub(super) table: Arc<ArcSwap<RoutingTable>>,
    pub(super) dialer: Arc<dyn OriginDialer>,
    pub(super) telemetry: GatewayMetrics,
    pub(super) pool: ConnectionPool,
    pub(super) connection_tasks: ConnectionTasks,
    pub(super) phase: PhaseHandle,
    /// Connections are told to close after their next response.
    pub(super) draining: CancellationToken,
    /// Nothing more is accepted; connections close when they are done.
    pub(super) closing: CancellationToken,
    pub(super) connection_limit: Arc<KeyedLimit<()>>,
    pub(super) client_limit: Arc<KeyedLimit<IpAddr>>,
    /// Requests by tunnel.
    pub(super) request_limit: Arc<KeyedLimit<String>>,
    /// Proofs by tunnel: they are no traffic, and traffic must not keep them out.
    pub(super) proof_limit: Arc<KeyedLimit<String>>,
    pub(super) seed: u64,
    pub(super) counter: AtomicU64,
}

impl ProxyShared {
    /// A source of what need not be secret: another for each use, the same for the same seed.
    pub(super) fn new_rng(&self) -> fastrand::Rng {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        fastrand::Rng::with_seed(self.seed ^ number)
    }

    /// A name that most likely no other request has.
    pub(super) fn request_id(&self) -> String {
        format!("{:032x}", self.new_rng().u128(..))
    }

    /// The hostname that is meant by one that names only this machine.
    pub(super) fn effective_host(&self, name: String) -> String {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let machine = name == "localhost" || bare.parse::<IpAddr>().is_ok();
        match &self.default_host {
            Some(host) if machine => host.clone(),
            _ => name,
        }
    }

    /// Whether a client is a proxy that may speak for others.
    pub(super) fn is_trusted_proxy(&self, client: SocketAddr) -> bool {
        let address = client.ip().to_canonical();
        self.trusted_proxies
            .iter()
            .any(|network| network.contains(&address))
    }
}
