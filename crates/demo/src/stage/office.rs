//! What the three operators of this process share, and the one address at which they can be looked at:
//! where they count, what they may spend on the API server, and the page.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use aplomb::admin::{self, AdminRegistry};
use aplomb::{Clock, Telemetry, budget};
use aplomb_console::serve::{self, ConsoleState};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Start;

/// What the operators share.
pub(crate) struct Office {
    pub(crate) telemetry: Telemetry,
    pub(crate) board: AdminRegistry,
    pub(super) server: budget::ApiServerLimits,
    address: SocketAddr,
}

impl Office {
    /// Takes the address, and serves the page from here on.
    pub(super) async fn open(start: &Start<'_>, address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "--page {address} cannot be used: give another address, or port 0 for a free one"
            )
        })?;
        let telemetry = Telemetry::default();
        let config = budget::LimitConfig::api_server();
        let office = Self {
            server: budget::ApiServerLimits::new(&config, &telemetry, &Clock::system()),
            address: listener.local_addr()?,
            board: AdminRegistry::default(),
            telemetry,
        };
        let (ends, stopped) = (CancellationToken::new(), start.until_stopped());
        let console = ConsoleState::new(office.board.clone(), Clock::system(), ends.clone());
        let pages = office.board.router().merge(serve::router(console));
        start.spawn_part("the page", async move {
            // A page stays open for hours: whoever still looks at the end is not waited for.
            tokio::select! { biased;
                () = stopped => Ok(()),
                served = admin::serve(listener, pages, ends) => Ok(served?),
            }
        });
        Ok(office)
    }

    /// Where people look.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
