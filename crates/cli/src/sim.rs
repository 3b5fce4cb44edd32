//! `aplomb sim`: local stand-ins for services that controllers call. Serves until a signal.

mod coderd;
mod hetzner;

use std::net::SocketAddr;

use anyhow::Context;
use aplomb_fake_services::coderd::FakeCoderd;
use aplomb_fake_services::hcloud::FakeHcloud;
use aplomb_fake_services::service::{self, FakeService, Service};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{CoderdArgs, SimArgs, Simulated};

pub(crate) async fn run(args: SimArgs) -> anyhow::Result<()> {
    match args.what {
        Simulated::Coderd(args) => serve_coderd(args).await,
        Simulated::Hetzner(args) => {
            let listen = args.listen.address;
            let hetzner = FakeHcloud::new(hetzner::config(args)?);
            serve(hetzner.service(), listen, std::future::pending()).await
        }
    }
}

async fn serve_coderd(args: CoderdArgs) -> anyhow::Result<()> {
    let coderd = FakeCoderd::new(coderd::config(&args)?);
    let listen = args.listen.address;
    let service = coderd.service();
    match coderd::player(coderd, args).await? {
        Some(player) => serve(service, listen, player).await,
        None => serve(service, listen, std::future::pending()).await,
    }
}

/// Serves until a signal, or until what runs beside it ends.
async fn serve<C: FakeService>(
    service: Service<C>,
    listen: SocketAddr,
    beside: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let running = service::serve(service, listen).await.with_context(|| {
        format!("--listen {listen} cannot be used: give another address, or port 0 for a free one")
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
