//! One connection of a gateway, from handshake to close: no stream is taken from a peer that is not
//! listed, nor for longer than it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aplomb_api::wire::{RELEASED, UNLISTED};
use iroh::EndpointId;
use iroh::endpoint::{Connection, Incoming, VarInt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::answer::Answers;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The gateways that an agent accepts.
pub type Listed = Arc<BTreeSet<EndpointId>>;

/// The ids of a list; what is none is left out, and so accepted by nobody.
#[must_use]
pub fn listed(ids: &[String]) -> Listed {
    Arc::new(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// What a connection needs.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) answers: Arc<Answers>,
    pub(crate) listed: watch::Receiver<Listed>,
    pub(crate) released: CancellationToken,
}

impl Host {
    /// Serves a connection until it closes.
    pub(crate) async fn host(self, incoming: Incoming) {
        let connection = match timeout(HANDSHAKE, incoming).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return tracing::debug!(%error, "Handshake failed"),
            Err(_) => return tracing::debug!("Handshake took too long"),
        };
        self.serve(&connection).await;
    }

    async fn serve(mut self, connection: &Connection) {
        let gateway = connection.remote_id();
        let mut streams = JoinSet::new();
        loop {
            if !self.listed.borrow_and_update().contains(&gateway) {
                tracing::warn!(%gateway, "Peer is not listed as a gateway");
                return connection.close(VarInt::from_u32(UNLISTED), b"not listed");
            }
            tokio::select! {
                biased;
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
