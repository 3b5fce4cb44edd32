//! One connection of a gateway, from handshake to close. Streams are accepted only while the peer is listed,
//! and for a limited time after it was removed from the list.

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

use crate::answer::StreamHandler;

/// Timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long an unlisted peer may wait to be listed, because a new gateway may connect before its listing
/// arrives. The delay also slows down peers that are never listed.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum peers waiting to be listed; further ones are rejected at once.
pub(crate) const WAITING: usize = 32;

/// How long a gateway that was removed from the list keeps its connection. A gateway that shuts down removes
/// itself first and then finishes its requests, which may take 30 s.
pub const PARTING: Duration = Duration::from_secs(40);

/// The gateways that an agent accepts.
pub type AllowedGateways = Arc<BTreeSet<EndpointId>>;

/// Parses a list of ids. Invalid ids are skipped, so that no peer can match them.
#[must_use]
pub fn listed(ids: &[String]) -> AllowedGateways {
    Arc::new(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// The context of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) answers: Arc<StreamHandler>,
    pub(crate) listed: watch::Receiver<AllowedGateways>,
    /// How long a gateway that was removed from the list keeps its connection.
    pub(crate) parting: Duration,
    pub(crate) released: CancellationToken,
    /// A permit for each peer that waits to be listed.
    pub(crate) waiting: Arc<Semaphore>,
}

impl ConnectionContext {
    /// Serves a connection until it closes.
    pub(crate) async fn host(self, incoming: Incoming) {
        let connection = match timeout(HANDSHAKE, incoming).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%error, "Handshake failed"),
            Err(_) => return tracing::debug!("Handshake timed out"),
        };
        match self.admits(&connection).await {
            true => self.serve(&connection).await,
            false => unlisted(&connection),
        }
    }

    /// Whether the peer is listed, now or within the grace period.
    async fn admits(&self, connection: &Connection) -> bool {
        let (gateway, mut listed) = (connection.remote_id(), self.listed.clone());
        if listed.borrow().contains(&gateway) {
            return true;
        }
        let Ok(_seat) = self.waiting.try_acquire() else {
            return false;
        };
        let soon = timeout(GRACE, listed.wait_for(|listed| listed.contains(&gateway)));
        tokio::select! {
            biased;
            admitted = soon => matches!(admitted, Ok(Ok(_))),
            _ = connection.closed() => false,
            () = self.released.cancelled() => false,
        }
    }

    async fn serve(mut self, connection: &Connection) {
        let gateway = connection.remote_id();
        let mut streams = JoinSet::new();
        // The deadline of a peer that was removed from the list.
        let mut until = None;
        loop {
            until = match self.listed.borrow_and_update().contains(&gateway) {
                true => None,
                false => until.or_else(|| Some(Instant::now() + self.parting)),
            };
            tokio::select! {
                biased;
                () = reached(until) => return unlisted(connection),
                () = self.released.cancelled() => {
                    return connection.close(VarInt::from_u32(RELEASED), b"released");
                }
                changed = self.listed.changed() => if changed.is_err() {
                    return connection.close(VarInt::from_u32(RELEASED), b"released");
                },
                Some(_) = streams.join_next() => {}
                stream = connection.accept_bi() => match stream {
                    Ok((send, recv)) => {
                        let answers = self.answers.clone();
                        streams.spawn(async move { answers.serve(gateway, send, recv).await });
                    }
                    Err(error) => return tracing::debug!(%gateway, %error, "Connection ended"),
                },
            }
        }
    }
}

async fn reached(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn unlisted(connection: &Connection) {
    tracing::warn!(peer = %connection.remote_id(), "Rejected peer that is not a listed gateway");
    connection.close(VarInt::from_u32(UNLISTED), b"not listed");
}
