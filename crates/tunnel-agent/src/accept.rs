//! One connection of a gateway, from handshake to close: no stream is taken from a peer that is not
//! listed when it comes, nor for long after it is listed no more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::wire::{RELEASED, UNLISTED};
use iroh::EndpointId;
use iroh::endpoint::{Connection, Incoming, VarInt};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::stream_handler::StreamHandler;

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may wait to be listed: a gateway that has just started is sometimes here before
/// the news of it. One that never will be cannot come again and again without a pause either.
const LISTING_GRACE: Duration = Duration::from_secs(1);
/// How many may wait at once; further ones are sent away at once.
pub(crate) const MAX_WAITING: usize = 32;

/// How long a gateway that is listed no more keeps the connection it has. One that stops takes itself off the
/// list first and ends the requests that are under way then, for which it has 30 s.
pub const UNLISTED_GRACE: Duration = Duration::from_secs(40);

/// The gateways that an agent accepts.
pub type AllowedGateways = Arc<BTreeSet<EndpointId>>;

/// The ids of a list; what is none is left out, and so accepted by nobody.
#[must_use]
pub fn allowed_gateways(ids: &[String]) -> AllowedGateways {
    Arc::new(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// What a connection needs.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) stream_handler: Arc<StreamHandler>,
    pub(crate) allowed_gateways: watch::Receiver<AllowedGateways>,
    /// How long a gateway that is listed no more keeps the connection it has.
    pub(crate) unlisted_grace: Duration,
    pub(crate) released: CancellationToken,
    /// A seat for each that waits to be listed.
    pub(crate) waiting_slots: Arc<Semaphore>,
}

impl ConnectionContext {
    /// Serves a connection until it closes.
    pub(crate) async fn serve_incoming(self, incoming: Incoming) {
        let connection = match timeout(HANDSHAKE_TIMEOUT, incoming).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%error, "Handshake failed"),
            Err(_) => return tracing::debug!("Handshake took too long"),
        };
        match self.is_allowed(&connection).await {
            true => self.serve_connection(&connection).await,
            false => close_unlisted(&connection),
        }
    }

    /// Whether the peer is listed, now or in a moment.
    async fn is_allowed(&self, connection: &Connection) -> bool {
        let (gateway, mut listed) = (connection.remote_id(), self.allowed_gateways.clone());
        if allowed_gateways.borrow().contains(&gateway) {
            return true;
        }
        let Ok(_seat) = self.waiting_slots.try_acquire() else {
            return false;
        };
        let soon = timeout(LISTING_GRACE, allowed_gateways.wait_for(|listed| allowed_gateways.contains(&gateway)));
        tokio::select! {
            biased;
            admitted = soon => matches!(admitted, Ok(Ok(_))),
            _ = connection.closed() => false,
            () = self.released.cancelled() => false,
        }
    }

    async fn serve_connection(mut self, connection: &Connection) {
        let gateway = connection.remote_id();
        let mut streams = JoinSet::new();
        // When it has to go, once it is listed no more.
        let mut until = None;
        loop {
            until = match self.allowed_gateways.borrow_and_update().contains(&gateway) {
                true => None,
                false => until.or_else(|| Some(Instant::now() + self.unlisted_grace)),
            };
            tokio::select! {
                biased;
                () = wait_until(until) => return close_unlisted(connection),
                () = self.released.cancelled() => {
                    return connection.close(VarInt::from_u32(RELEASED), b"released");
                }
                changed = self.allowed_gateways.changed() => if changed.is_err() {
                    return connection.close(VarInt::from_u32(RELEASED), b"released");
                },
                Some(_) = streams.join_next() => {}
                stream = connection.accept_bi() => match stream {
                    Ok((send, recv)) => {
                        let answers = self.stream_handler.clone();
                        streams.spawn(async move { answers.serve_stream(gateway, send, recv).await });
                    }
                    Err(error) => return tracing::debug!(%gateway, %error, "Connection ended"),
                },
            }
        }
    }
}

async fn wait_until(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn close_unlisted(connection: &Connection) {
    tracing::warn!(peer = %connection.remote_id(), "Peer is not listed as a gateway");
    connection.close(VarInt::from_u32(UNLISTED), b"not listed");
}
