//! `aplomb egress-host`: prepares this node to be a gateway, until a signal.

use anyhow::{Context, Result};
use aplomb_egress_node::NodeSettings;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::EgressHostArgs;
use crate::run::{init_logging, load_config};

pub(crate) async fn run(args: EgressHostArgs) -> Result<()> {
    init_logging(args.log_format);
    // Before anything is changed, so that cleanup runs whenever a signal arrives.
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let client = match args.stable_egress.is_empty() {
        true => None,
        false => Some(aplomb::client(load_config(args.kubeconfig).await?)?),
    };
    let settings = NodeSettings {
        addresses: args.address,
        stable_egresses: args.stable_egress,
        interface: args.interface,
        gateway: args.gateway,
        table: args.table,
        priority: args.priority,
        listen: args.listen,
    };
    let shutdown = async {
        tokio::select! { biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    aplomb_egress_node::run(settings, client, shutdown).await?;
    Ok(())
}
