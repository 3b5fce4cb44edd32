//! The command line: names, help and defaults. Nothing here does anything.

mod connect;
mod crds;
#[cfg(target_os = "linux")]
mod egress_host;
mod gateway;
mod run;
mod tunnel;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use aplomb_sim::hetzner::span;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use self::connect::ConnectArgs;
pub(crate) use self::crds::{CrdsArgs, Kinds};
#[cfg(target_os = "linux")]
pub(crate) use self::egress_host::EgressHostArgs;
pub(crate) use self::gateway::GatewayArgs;
pub(crate) use self::run::{LogFormat, Operator, RunArgs};
pub(crate) use self::tunnel::{Output, TunnelArgs, TunnelCommand};

/// Kubernetes controllers that keep their composure.
#[derive(Debug, Parser)]
#[command(name = "aplomb", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a Kubernetes API server in a box, for kubectl and for operators
    Box(BoxArgs),
    /// Start the box, apply a sample, show what it made, and exit
    Demo,
    /// Run a local stand-in for a service that controllers call
    Sim(SimArgs),
    /// Run operators until a signal: in a cluster, or beside one
    Run(RunArgs),
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
    /// Print a completion script for a shell
    Completion {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Args, Debug)]
pub(crate) struct BoxArgs {
    /// Address to serve on; port 0 picks a free one
    #[arg(
        long,
        env = "APLOMB_BOX_LISTEN",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT"
    )]
    pub(crate) listen: SocketAddr,
    /// File to write a kubeconfig to; it holds a bearer token
    #[arg(long, env = "APLOMB_BOX_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// File to append an audit log to, in the audit.k8s.io/v1 format
    #[arg(long, env = "APLOMB_BOX_AUDIT_LOG", value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Authorise requests by the stored Roles and bindings
    #[arg(long, env = "APLOMB_BOX_RBAC")]
    pub(crate) rbac: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) what: Simulated,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Simulated {
    /// The Hetzner Cloud API: floating IPs, servers, actions, locks and the rate limit
    Hetzner(HetznerArgs),
}

#[derive(Args, Debug)]
pub(crate) struct HetznerArgs {
    /// Address to serve on; port 0 picks a free one
    #[arg(
        long,
        env = "APLOMB_SIM_LISTEN",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT"
    )]
    pub(crate) listen: SocketAddr,
    /// File with one accepted token per line: the token, and after it a project and the word readonly if wanted
    #[arg(long, env = "APLOMB_SIM_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Requests a full bucket allows
    #[arg(long, default_value_t = 3600, value_name = "REQUESTS")]
    pub(crate) limit: u64,
    /// Requests a bucket gains per second [default: the limit in an hour]
    #[arg(long, value_name = "REQUESTS")]
    pub(crate) refill_per_second: Option<f64>,
    /// Who shares a bucket
    #[arg(long, value_enum, default_value_t = Share::Project)]
    pub(crate) per: Share,
    /// How long an action runs: a duration, or a range to draw from
    #[arg(long, default_value = "500ms..1s", value_parser = action_time, value_name = "TIME")]
    pub(crate) action_time: ActionTime,
    /// Refused requests cost the part of a token that had refilled
    #[arg(long)]
    pub(crate) drain_on_refusal: bool,
    /// Answer to an assign to the server that holds the address already
    #[arg(long, value_enum, default_value_t = SameServerAssign::Accepted, value_name = "ANSWER")]
    pub(crate) same_server_assign: SameServerAssign,
    /// Seed of everything random [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Share {
    /// All tokens of a project share one
    Project,
    /// Each token has its own
    Token,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SameServerAssign {
    /// 201 and an action that changes nothing
    #[value(name = "ok")]
    Accepted,
    /// 422 `floating_ip_assigned`
    #[value(name = "422")]
    Refused,
}

/// A range, in a type of its own because clap takes a bare one apart.
#[derive(Clone, Debug)]
pub(crate) struct ActionTime(pub(crate) RangeInclusive<Duration>);

fn action_time(text: &str) -> Result<ActionTime, String> {
    span::range(text).map(ActionTime)
}
