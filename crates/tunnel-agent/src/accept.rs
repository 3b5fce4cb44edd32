//! One connection of a gateway, from handshake to close. Streams are accepted only while the peer is listed,
//! and for a limited time after it was removed from the list.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb_tunnel_protocol::{CLOSE_NOT_ALLOWED, CLOSE_RELEASED};
use iroh::EndpointId;
use iroh::endpoint::{Connection, Incoming, VarInt};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::stream_handler::StreamHandler;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unlisted peer may wait to be listed, because a new gateway may connect before its listing
/// arrives. The delay also slows down peers that are never listed.
const LISTING_GRACE: Duration = Duration::from_secs(1);
/// Maximum peers waiting to be listed; further ones are rejected at once.
pub(crate) const MAX_WAITING: usize = 32;

/// How long a gateway that was removed from the list keeps its connection. A gateway that shuts down removes
/// itself first and then finishes its requests, which may take 30 s.
pub const UNLISTED_GRACE: Duration = Duration::from_secs(40);

/// The gateways that an agent accepts.
pub type AllowedGateways = Arc<BTreeSet<EndpointId>>;

/// Parses a list of ids. Invalid ids are skipped, so that no peer can match them.
#[must_use]
pub fn allowed_gateways(ids: &[String]) -> AllowedGateways {
    Arc::new(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

#[derive(Clone, Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) stream_handler: Arc<StreamHandler>,
    pub(crate) allowed_gateways: watch::Receiver<AllowedGateways>,
    /// How long a gateway that was removed from the list keeps its connection.
    pub(crate) unlisted_grace: Duration,
    pub(crate) released: CancellationToken,
    /// A permit for each peer that waits to be listed.
    pub(crate) waiting_slots: Arc<Semaphore>,
}

impl ConnectionContext {
    pub(crate) async fn serve_incoming(self, incoming: Incoming) {
        let connection = match timeout(HANDSHAKE_TIMEOUT, incoming).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%error, "Handshake failed"),
            Err(_) => return tracing::debug!("Handshake timed out"),
        };
        match self.is_allowed(&connection).await {
            true => self.serve_connection(&connection).await,
            false => close_unlisted(&connection),
        }
    }

    /// Whether the peer is listed, now or within the grace period.
    async fn is_allowed(&self, connection: &Connection) -> bool {
        let (gateway, mut listed) = (connection.remote_id(), self.allowed_gateways.clone());
        if listed.borrow().contains(&gateway) {
            return true;
        }
        let Ok(_seat) = self.waiting_slots.try_acquire() else {
            return false;
        };
        let soon = timeout(LISTING_GRACE, listed.wait_for(|listed| listed.contains(&gateway)));
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
        // The deadline of a peer that was removed from the list.
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
                    return connection.close(VarInt::from_u32(CLOSE_RELEASED), b"released");
                }
                changed = self.allowed_gateways.changed() => if changed.is_err() {
                    return connection.close(VarInt::from_u32(CLOSE_RELEASED), b"released");
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
    tracing::warn!(peer = %connection.remote_id(), "Rejected peer that is not a listed gateway");
    connection.close(VarInt::from_u32(CLOSE_NOT_ALLOWED), b"not listed");
}
