//! The command line: names, help and defaults. Nothing here does anything.

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

/// Kubernetes controllers that keep their composure.
#[derive(Debug, Parser)]
#[command(name = "aplomb", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
    /// Whether tables have colours; NO_COLOR and CLICOLOR_FORCE are heard when it is auto
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    pub(crate) color: ColorMode,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorMode {
    /// On a terminal
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run a Kubernetes API server in a box, for kubectl and for operators
    Box(BoxArgs),
    /// Start everything on this machine and play five stories on it
    Demo(DemoArgs),
    /// Run a local stand-in for a service that controllers call
    Sim(SimArgs),
    /// Run operators until a signal: in a cluster, or beside one
    Run(RunArgs),
    /// Show our objects as kubectl does: all kinds, or those you name
    Get(GetArgs),
    /// Tell the story of one object: what belongs to it, its stages, who did what when
    Trace(TraceArgs),
    /// Show operators, budgets, queues and what is not ready; exit code 1 if anything is not
    Status(StatusArgs),
    /// Give a local service a public URL, until a signal
    Connect(Box<ConnectArgs>),
    /// List, show and delete tunnels
    Tunnel(TunnelArgs),
    /// Serve the public side of tunnels until a signal
    Gateway(Box<GatewayArgs>),
    /// Put floating IPs on an interface of this node, with a route of their own
    #[cfg(target_os = "linux")]
    EgressHost(EgressHostArgs),
    /// Print the CustomResourceDefinitions of every kind as YAML, or install them
    Crds(CrdsArgs),
    /// Print a completion script for a shell, or what kubectl needs to complete `kubectl aplomb`
    Completion(CompletionArgs),
    /// Print the version of this program
    Version(VersionArgs),
    /// What could come next, for completions
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words so far
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// Which shell
    #[arg(required_unless_present = "kubectl")]
    pub(crate) shell: Option<Shell>,
    /// Print kubectl_complete-aplomb, the executable that kubectl asks
    #[arg(long, conflicts_with = "shell")]
    pub(crate) kubectl: bool,
}

#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// How it is printed
    #[arg(long, short, value_enum, default_value_t = VersionOutput::Text, value_name = "FORMAT")]
    pub(crate) output: VersionOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionOutput {
    Text,
    Json,
}
