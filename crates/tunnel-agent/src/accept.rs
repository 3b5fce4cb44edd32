//! One connection of a gateway, from handshake to close: no stream is taken from a peer that is not
//! listed when it comes, nor for long after it is listed no more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::wire::{CLOSE_RELEASED, CLOSE_NOT_ALLOWED};
use iroh::EndpointId;
use iroh::endpoint::{Connection, Incoming, VarInt};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::answer::StreamHandler;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a peer may wait to be listed: a gateway that has just started is sometimes here before
/// the news of it. One that never will be cannot come again and again without a pause either.
const GRACE: Duration = Duration::from_secs(1);
/// How many may wait at once; further ones are sent away at once.
pub(crate) const WAITING: usize = 32;

/// How long a gateway that is listed no more keeps the connection it has. One that stops takes itself off the
/// list first and ends the requests that are under way then, for which it has 30 s.
pub const PARTING: Duration = Duration::from_secs(40);

/// The gateways that an agent accepts.
pub type AllowedGateways = Arc<BTreeSet<EndpointId>>;

/// The ids of a list; what is none is left out, and so accepted by nobody.
#[must_use]
pub fn listed(ids: &[String]) -> AllowedGateways {
    Arc::new(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// What a connection needs.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) answers: Arc<StreamHandler>,
    pub(crate) listed: watch::Receiver<AllowedGateways>,
    /// How long a gateway that is listed no more keeps the connection it has.
    pub(crate) parting: Duration,
    pub(crate) released: CancellationToken,
    /// A seat for each that waits to be listed.
    pub(crate) waiting: Arc<Semaphore>,
}

impl ConnectionContext {
    /// Serves a connection until it closes.
    pub(crate) async fn host(self, incoming: Incoming) {
        let connection = match timeout(HANDSHAKE, incoming).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%error, "Handshake failed"),
            Err(_) => return tracing::debug!("Handshake took too long"),
        };
        match self.admits(&connection).await {
            true => self.serve(&connection).await,
            false => unlisted(&connection),
        }
    }

    /// Whether the peer is listed, now or in a moment.
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
        // When it has to go, once it is listed no more.
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
                    return connection.close(VarInt::from_u32(CLOSE_RELEASED), b"released");
                }
                changed = self.listed.changed() => if changed.is_err() {
                    return connection.close(VarInt::from_u32(CLOSE_RELEASED), b"released");
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
    tracing::warn!(peer = %connection.remote_id(), "Peer is not listed as a gateway");
    connection.close(VarInt::from_u32(CLOSE_NOT_ALLOWED), b"not listed");
}
