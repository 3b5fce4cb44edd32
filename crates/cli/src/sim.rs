//! `aplomb sim`: local simulations of external APIs. Serves until a signal.

mod coderd;
mod hetzner;

use std::net::SocketAddr;

use anyhow::Context;
use aplomb_fake_services::coderd::FakeCoderd;
use aplomb_fake_services::hcloud::FakeHcloud;
use aplomb_fake_services::service::{self, FakeService, Service};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{CoderdArgs, SimArgs, SimCommand};

pub(crate) async fn run(args: SimArgs) -> anyhow::Result<()> {
    match args.what {
        SimCommand::Coderd(args) => serve_coderd(args).await,
        SimCommand::Hetzner(args) => {
            let listen = args.listen.address;
            let hetzner = FakeHcloud::new(hetzner::config(args)?);
            serve_until_signal(hetzner.service(), listen, std::future::pending()).await
        }
    }
}

async fn serve_coderd(args: CoderdArgs) -> anyhow::Result<()> {
    let coderd = FakeCoderd::new(coderd::config(&args)?);
    let listen = args.listen.address;
    let service = coderd.service();
    match coderd::run_pod_simulator(coderd, args).await? {
        Some(player) => serve_until_signal(service, listen, player).await,
        None => serve_until_signal(service, listen, std::future::pending()).await,
    }
}

/// Serves until a signal, or until the work that runs with it ends.
async fn serve_until_signal<C: FakeService>(
    service: Service<C>,
    listen: SocketAddr,
    beside: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let running = service::serve(service, listen).await.with_context(|| {
        format!("cannot listen on --listen {listen}; use another address, or port 0 for a free one")
    })?;
    println!("ready {}", running.url());
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = beside => {}
    }
    running.stop().await;
    Ok(())
}
