//! The command line: names, help and defaults. Contains no logic.

mod connect;
mod run;
mod sim;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use aplomb_api::DurationString;
use aplomb_demo::StoryName;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use self::connect::ConnectArgs;
#[cfg(target_os = "linux")]
pub(crate) use self::run::EgressHostArgs;
pub(crate) use self::run::{GatewayArgs, LogFormat, OperatorArg, RunArgs};
pub(crate) use self::sim::{
    BoxArgs, BypassRefusal, CoderdArgs, FractionArg, HetznerArgs, SameServerAssign, SimArgs, SimCommand,
};

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

#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig of the cluster [default: kubectl's, or the pod's ServiceAccount]
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "APLOMB_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace [default: that of the kubeconfig's context]
    #[arg(long, short, env = "APLOMB_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// Kinds, separated by commas, and names; or KIND/NAME, repeated [default: all kinds]
    #[arg(value_name = "KIND[,KIND] [NAME]|KIND/NAME")]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Objects of every namespace
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Keep watching, and print each row that changes
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Output format [default: a table]
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<GetOutput>,
    /// Print no column titles
    #[arg(long, visible_alias = "no-header")]
    pub(crate) no_headers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetOutput {
    /// A table with all columns
    Wide,
    Json,
    Yaml,
    /// Kind and name, one per line
    Name,
}

/// The admin addresses of operators.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminArgs {
    /// Admin address of an operator; may be repeated [default: from its Lease, or through its pod]
    #[arg(long, env = "APLOMB_ADMIN_URL", value_delimiter = ',', value_name = "URL")]
    pub(crate) admin: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    /// The object, such as httpproxy/web
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = TraceOutput::Text, value_name = "FORMAT")]
    pub(crate) output: TraceOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceOutput {
    Text,
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    /// Wait until no problem is left
    #[arg(long)]
    pub(crate) wait: bool,
    /// Time limit of --wait; exit code 124 after it
    #[arg(long, requires = "wait", default_value = "5m", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = StatusOutput::Table, value_name = "FORMAT")]
    pub(crate) output: StatusOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusOutput {
    Table,
    Json,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: DurationString = text.parse().map_err(|error| format!("{error}"))?;
    Ok(span.0)
}

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

#[derive(Args, Debug)]
pub(crate) struct CrdsArgs {
    /// Kinds to print or install [default: all]
    #[arg(value_name = "KINDS")]
    pub(crate) kinds: Vec<CrdKinds>,
    /// Leave out the kinds of the Gateway API
    #[arg(long)]
    pub(crate) without_gateway_api: bool,
    /// Install them in the cluster, and wait until they are served. The Gateway API is only installed
    /// where it is missing or older
    #[arg(long)]
    pub(crate) apply: bool,
    /// Kubeconfig of the cluster; not needed in a pod with a ServiceAccount
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE", requires = "apply")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdKinds {
    /// CoderProvisioner and CoderWorkspaceProxy
    Coder,
    /// StableEgress
    Egress,
    /// HTTPProxy, Connector and related kinds
    Tunnel,
    /// Gateway, GatewayClass and HTTPRoute
    GatewayApi,
}

impl CrdsArgs {
    /// The chosen kinds, in the order in which they are written.
    pub(crate) fn selected(&self) -> Vec<CrdKinds> {
        let all = [
            CrdKinds::Coder,
            CrdKinds::Egress,
            CrdKinds::Tunnel,
            CrdKinds::GatewayApi,
        ];
        let asked = |kinds: &CrdKinds| self.kinds.is_empty() || self.kinds.contains(kinds);
        let wanted = |kinds: &CrdKinds| *kinds != CrdKinds::GatewayApi || !self.without_gateway_api;
        let chosen = all.into_iter().filter(asked);
        chosen.filter(wanted).collect()
    }
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Story to play: conflicts, tunnel, throttle, heartbeats or node-death; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) script: Vec<StoryName>,
    /// Reading speed: 2 halves the pauses. Without a terminal there are none
    #[arg(long, default_value_t = 1.0, value_name = "NUMBER")]
    pub(crate) speed: f64,
    /// Print one JSON object per line: kinds ready, say, event, result
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep running after the stories until a signal, even without a terminal
    #[arg(long)]
    pub(crate) keep: bool,
    /// Address of the page; port 0 picks a free one
    #[arg(
        long,
        env = "APLOMB_DEMO_PAGE",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT"
    )]
    pub(crate) page: SocketAddr,
    /// File for the kubeconfig, removed at the end [default: in a temporary directory]
    #[arg(long, env = "APLOMB_DEMO_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}
