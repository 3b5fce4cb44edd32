//! The command line: names, help and defaults. Contains no logic.

mod box_server;
mod cluster;
mod connect;
mod crds;
mod demo;
#[cfg(target_os = "linux")]
mod egress_host;
mod gateway;
mod get;
mod inspect;
mod run;
mod sim;
#[cfg(test)]
mod tests;
mod tunnel;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use self::box_server::BoxArgs;
pub(crate) use self::cluster::ClusterArgs;
pub(crate) use self::connect::ConnectArgs;
pub(crate) use self::crds::{CrdKinds, CrdsArgs};
pub(crate) use self::demo::DemoArgs;
#[cfg(target_os = "linux")]
pub(crate) use self::egress_host::EgressHostArgs;
pub(crate) use self::gateway::GatewayArgs;
pub(crate) use self::get::{GetArgs, GetOutput};
pub(crate) use self::inspect::{StatusArgs, StatusOutput, TraceArgs, TraceOutput};
pub(crate) use self::run::{LogFormat, OperatorArg, RunArgs};
pub(crate) use self::sim::{
    BypassRefusal, CoderdArgs, FractionArg, HetznerArgs, SameServerAssign, SimArgs, SimCommand,
};
pub(crate) use self::tunnel::{TunnelArgs, TunnelCommand, TunnelOutput};

/// Kubernetes operators for tunnels, Coder and egress IPs.
#[derive(Debug, Parser)]
#[command(name = "aplomb", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
    /// Use colors in tables; auto follows NO_COLOR, CLICOLOR_FORCE and the terminal
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    pub(crate) color: ColorMode,
}

/// When to use colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorMode {
    /// On a terminal
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run a Kubernetes API server for tests, without nodes
    Box(BoxArgs),
    /// Start everything in one process and play five stories on it
    Demo(DemoArgs),
    /// Run a local simulation of an external API
    Sim(SimArgs),
    /// Run operators until a signal, in a pod or outside the cluster
    Run(RunArgs),
    /// Show Aplomb's objects as kubectl does: all kinds, or selected ones
    Get(GetArgs),
    /// Show one object with its related objects, stages and history
    Trace(TraceArgs),
    /// Show operators, rate limits, queues and problems; exit code 1 if there is a problem
    Status(StatusArgs),
    /// Give a local service a public URL, until a signal
    Connect(Box<ConnectArgs>),
    /// List, show and delete tunnels
    Tunnel(TunnelArgs),
    /// Run a gateway, the public side of tunnels, until a signal
    Gateway(Box<GatewayArgs>),
    /// Configure floating IPs and their routes on this node
    #[cfg(target_os = "linux")]
    EgressHost(EgressHostArgs),
    /// Print the CustomResourceDefinitions of every kind as YAML, or install them
    Crds(CrdsArgs),
    /// Print a completion script for a shell, or what kubectl needs to complete `kubectl aplomb`
    Completion(CompletionArgs),
    /// Print the version of this program
    Version(VersionArgs),
    /// Possible next words, for completion scripts
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words so far, the last one incomplete
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(required_unless_present = "kubectl")]
    pub(crate) shell: Option<Shell>,
    /// Print kubectl_complete-aplomb, the script that kubectl runs for completions
    #[arg(long, conflicts_with = "shell")]
    pub(crate) kubectl: bool,
}

#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = VersionOutput::Text, value_name = "FORMAT")]
    pub(crate) output: VersionOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionOutput {
    Text,
    Json,
}
