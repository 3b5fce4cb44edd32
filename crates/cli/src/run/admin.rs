//! What the operators of one process share: telemetry, the rate limit for the API server, and one admin
//! address for all of them.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use aplomb::admin::{self, AdminRegistry};
use aplomb::{Clock, Telemetry, ratelimit};
use aplomb_console::serve::{self, ConsoleState};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(super) struct AdminServer {
    telemetry: Telemetry,
    board: AdminRegistry,
    server: Option<ratelimit::ApiServerLimits>,
    listener: TcpListener,
    address: SocketAddr,
}

pub(super) struct OperatorDeps {
    pub(super) coder: aplomb_coder_operator::CoderDeps,
    pub(super) egress: aplomb_egress_operator::EgressDeps,
    pub(super) tunnel: aplomb_tunnel_operator::TunnelDeps,
}

impl AdminServer {
    /// Binds the address before anything else, so that the process does not run without its admin endpoints.
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen on --admin {address}; use another address, or port 0 for a free one")
        })?;
        let address = listener.local_addr()?;
        let telemetry = Telemetry::default();
        let config = ratelimit::LimitConfig::api_server();
        let server = ratelimit::ApiServerLimits::new(&config, &telemetry, &Clock::system());
        Ok(Self {
            telemetry,
            board: AdminRegistry::default(),
            server: Some(server),
            listener,
            address,
        })
    }

    /// The URL for others; `None` if the address cannot be reached from other hosts.
    pub(super) fn url(&self) -> Option<String> {
        let named = !self.address.ip().is_unspecified();
        named.then(|| format!("http://{}", self.address))
    }

    /// The arguments of each operator, with the shared parts.
    pub(super) fn parts(&self) -> Result<OperatorDeps> {
        let (telemetry, board, server) = (&self.telemetry, &self.board, &self.server);
        Ok(OperatorDeps {
            coder: aplomb_coder_operator::CoderDeps {
                telemetry: telemetry.clone(),
                admin_registry: board.clone(),
                api_limits: server.clone(),
                ..aplomb_coder_operator::CoderDeps::production()
            },
            egress: aplomb_egress_operator::EgressDeps {
                telemetry: telemetry.clone(),
                admin_registry: board.clone(),
                api_limits: server.clone(),
                ..aplomb_egress_operator::EgressDeps::production()?
            },
            tunnel: aplomb_tunnel_operator::TunnelDeps {
                telemetry: telemetry.clone(),
                admin: board.clone(),
                server: server.clone(),
                ..aplomb_tunnel_operator::TunnelDeps::production(u64::from(std::process::id()))
            },
        })
    }

    /// Serves until `work` has ended, so that shutdown can be observed too. It does not wait for clients: a page
    /// stays open for hours.
    pub(super) async fn serve(self, work: impl Future<Output = Result<()>>) -> Result<()> {
        tracing::info!(address = %self.address, "Serving admin endpoints");
        let ends = CancellationToken::new();
        let console = ConsoleState::new(self.board.clone(), Clock::system(), ends.clone());
        let pages = self.board.router().merge(serve::router(console));
        let served = admin::serve(self.listener, pages, ends);
        tokio::select! {
            biased;
            outcome = work => outcome,
            served = served => served.context("serve the admin address"),
        }
    }
}
