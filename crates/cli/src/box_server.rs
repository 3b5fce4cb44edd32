//! `aplomb box`: serves until a signal, prints one line when ready, and keeps the files it wrote.

use anyhow::{Context, anyhow};
use aplomb_apiserver::ApiServer;
use aplomb_apiserver::http::Limits;
use aplomb_apiserver::standalone::{Error, StandaloneConfig, start_with};
use aplomb_apiserver::storage::{DataDir, Window};
use aplomb_controllers::Controllers;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::BoxArgs;

pub(crate) async fn run(args: BoxArgs) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    init_logging();
    let window = Window {
        behind: args.watch_buffer,
        ..Window::default()
    };
    let mut builder = ApiServer::builder().rbac(args.rbac).cluster(true).window(window);
    if let Some(path) = &args.data_dir {
        builder = builder.data_dir(DataDir::open(path)?);
    }
    let server = builder.build();
    let _actors = Controllers::cluster().start(&server);
    let config = StandaloneConfig {
        listen: args.listen,
        kubeconfig: Some(args.kubeconfig),
        audit_log: args.audit_log,
        rbac: args.rbac,
        token: None,
        limits: Limits {
            connections: args.max_connections,
            requests: args.max_requests_inflight,
            mutating_requests: args.max_mutating_requests_inflight,
        },
    };
    let running = start_with(server, config).await;
    let running = running.map_err(|error| match error {
        Error::Listen { .. } => {
            anyhow!("{error}; use another --listen address, or port 0 for a free one")
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

/// Only errors and warnings are logged unless RUST_LOG is set.
fn init_logging() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
