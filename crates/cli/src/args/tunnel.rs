//! The flags of `aplomb tunnel`. Contains no logic.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct TunnelArgs {
    #[command(subcommand)]
    pub(crate) what: TunnelCommand,
    /// Kubeconfig of the cluster [default: kubectl's, or the pod's ServiceAccount]
    #[arg(long, global = true, env = "APLOMB_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Namespace [default: that of the kubeconfig's context]
    #[arg(long, short, global = true, env = "APLOMB_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TunnelCommand {
    /// List tunnels with their state
    List {
        /// Tunnels of every namespace
        #[arg(long, short = 'A')]
        all_namespaces: bool,
        /// Output format
        #[arg(long, short, value_enum, default_value_t = TunnelOutput::Table, value_name = "FORMAT")]
        output: TunnelOutput,
    },
    /// Show one tunnel: conditions, timeline and connector; exit code 1 if it does not work
    Status {
        /// Name of the tunnel
        name: String,
        /// Output format
        #[arg(long, short, value_enum, default_value_t = TunnelOutput::Table, value_name = "FORMAT")]
        output: TunnelOutput,
    },
    /// Delete a tunnel
    Delete {
        /// Name of the tunnel
        name: String,
        /// Delete its connector too, unless other tunnels use it
        #[arg(long)]
        connector: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TunnelOutput {
    Table,
    Json,
}
