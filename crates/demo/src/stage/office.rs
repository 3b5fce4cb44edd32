//! What the three operators of this process share: telemetry, the rate limit for the API server, and one
//! admin address with the page.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use aplomb::admin::{self, AdminRegistry};
use aplomb::{Clock, Telemetry, ratelimit};
use aplomb_console::serve::{self, ConsoleState};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Start;

/// The shared parts.
pub(crate) struct Office {
    pub(crate) telemetry: Telemetry,
    pub(crate) board: AdminRegistry,
    pub(super) server: ratelimit::ApiServerLimits,
    address: SocketAddr,
}

impl Office {
    /// Binds the address, and serves the page from now on.
    pub(super) async fn open(start: &Start<'_>, address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen on --page {address}; use another address, or port 0 for a free one")
        })?;
        let telemetry = Telemetry::default();
        let config = ratelimit::LimitConfig::api_server();
        let office = Self {
            server: ratelimit::ApiServerLimits::new(&config, &telemetry, &Clock::system()),
            address: listener.local_addr()?,
            board: AdminRegistry::default(),
            telemetry,
        };
        let (ends, stopped) = (CancellationToken::new(), start.until_stopped());
        let console = ConsoleState::new(office.board.clone(), Clock::system(), ends.clone());
        let pages = office.board.router().merge(serve::router(console));
        start.spawn_part("the page", async move {
            // A page stays open for hours: shutdown does not wait for its readers.
            tokio::select! { biased;
                () = stopped => Ok(()),
                served = admin::serve(listener, pages, ends) => Ok(served?),
            }
        });
        Ok(office)
    }

    /// The URL of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
