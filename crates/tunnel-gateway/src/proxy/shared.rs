//! State shared by all requests of a server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aplomb::Clock;
use arc_swap::ArcSwap;
use ipnet::IpNet;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connection_tasks::ConnectionTasks;
use crate::access::AccessLog;
use crate::limits::{KeyedLimit, ListenerLimits};
use crate::origin::OriginDialer;
use crate::origin::pool::ConnectionPool;
use crate::routing::RoutingTable;
use crate::telemetry::GatewayMetrics;

pub(super) struct ProxyShared {
    pub(super) limits: ListenerLimits,
    /// Whether to send `X-Aplomb-*` headers.
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
    /// Canceled when connections should close after their next response.
    pub(super) draining: CancellationToken,
    /// Canceled when no more connections are accepted and existing ones close once they are idle.
    pub(super) closing: CancellationToken,
    pub(super) connection_limit: Arc<KeyedLimit<()>>,
    pub(super) client_limit: Arc<KeyedLimit<IpAddr>>,
    /// Requests in flight, by tunnel.
    pub(super) request_limit: Arc<KeyedLimit<String>>,
    /// Proofs in flight, by tunnel: limited separately, so that traffic cannot block them.
    pub(super) proof_limit: Arc<KeyedLimit<String>>,
    pub(super) seed: u64,
    pub(super) counter: AtomicU64,
}

impl ProxyShared {
    /// A source of randomness that need not be secret: different for each use, and reproducible with the same seed.
    pub(super) fn new_rng(&self) -> fastrand::Rng {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        fastrand::Rng::with_seed(self.seed ^ number)
    }

    /// A random request id.
    pub(super) fn request_id(&self) -> String {
        format!("{:032x}", self.new_rng().u128(..))
    }

    /// The default hostname for requests that name only this machine.
    pub(super) fn effective_host(&self, name: String) -> String {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let machine = name == "localhost" || bare.parse::<IpAddr>().is_ok();
        match &self.default_host {
            Some(host) if machine => host.clone(),
            _ => name,
        }
    }

    pub(super) fn is_trusted_proxy(&self, client: SocketAddr) -> bool {
        let address = client.ip().to_canonical();
        self.trusted_proxies.iter().any(|network| network.contains(&address))
    }
}

/// The phase of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServePhase {
    /// Its first table is not complete.
    Starting,
    Serving,
    /// It finishes requests in flight and accepts no more.
    Draining,
    /// All requests have ended.
    Stopped,
}

/// The phase, which never goes back. Clones share it.
#[derive(Clone, Debug)]
pub struct PhaseHandle(watch::Sender<ServePhase>);

impl PhaseHandle {
    /// Advances to `phase`, unless it is already past it.
    pub fn advance_to(&self, phase: ServePhase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// The current phase.
    #[must_use]
    pub fn phase(&self) -> ServePhase {
        *self.0.borrow()
    }

    /// Whether the gateway is ready: the result of `/readyz`.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase() == ServePhase::Serving
    }

    /// Waits until `phase` is reached or passed.
    pub async fn wait_for(&self, phase: ServePhase) {
        let mut watch = self.0.subscribe();
        // The sender is owned by self, so it exists while this waits.
        let _ = watch.wait_for(|now| *now >= phase).await;
    }
}

impl Default for PhaseHandle {
    fn default() -> Self {
        Self(watch::Sender::new(ServePhase::Starting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_ready_from_the_first_table_to_the_drain() {
        let health = PhaseHandle::default();
        assert!(!health.is_ready());
        health.advance_to(ServePhase::Serving);
        assert!(health.is_ready());
        health.advance_to(ServePhase::Draining);
        assert!(!health.is_ready());
        health.advance_to(ServePhase::Serving);
        assert!(!health.is_ready(), "phases never go back");
        health.wait_for(ServePhase::Serving).await;
        health.wait_for(ServePhase::Draining).await;
    }
}
