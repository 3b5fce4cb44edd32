//! `aplomb box`: serve until a signal, say so in one line, leave the files it wrote.

use std::time::Duration;

use anyhow::{Context, anyhow};
use aplomb_sim::ApiServer;
use aplomb_sim::actors::Actors;
use aplomb_sim::http::{BoxConfig, Error, start_with};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::BoxArgs;

pub(crate) async fn run(args: BoxArgs) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let server = ApiServer::builder().rbac(args.rbac).build();
    let _actors = controllers().start(&server);
    let config = BoxConfig {
        listen: args.listen,
        kubeconfig: Some(args.kubeconfig),
        audit_log: args.audit_log,
        rbac: args.rbac,
        token: None,
    };
    let running = start_with(server, config).await;
    let running = running.map_err(|error| match error {
        Error::Listen { .. } => {
            anyhow!("{error}; give another --listen address, or port 0 for a free one")
        }
        other => other.into(),
    })?;
    println!("ready {}", running.url());
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    running.stop().await;
    Ok(())
}

/// What every cluster has and clients rely on.
pub(crate) fn controllers() -> Actors {
    let prompt = Duration::ZERO..Duration::from_millis(50);
    Actors::none()
        .garbage_collector(prompt.clone())
        .namespace_lifecycle(prompt)
}
