//! The flags of `aplomb box` and `aplomb sim`. Contains no logic.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use aplomb_apiserver::http::Limits;
use aplomb_fake_services::coderd::Version;
use aplomb_fake_services::service::span;
use clap::{Args, Subcommand, ValueEnum};

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
    /// File for the kubeconfig; it contains a bearer token
    #[arg(long, env = "APLOMB_BOX_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// Directory for objects, certificates and tokens, which a restart continues with [default: in
    /// memory, lost at the end]
    #[arg(long, env = "APLOMB_BOX_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// File for the audit log in the audit.k8s.io/v1 format; lines are appended
    #[arg(long, env = "APLOMB_BOX_AUDIT_LOG", value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Maximum number of connections; further ones are closed
    #[arg(
        long,
        env = "APLOMB_BOX_MAX_CONNECTIONS",
        default_value_t = Limits::default().connections,
        value_name = "CONNECTIONS"
    )]
    pub(crate) max_connections: usize,
    /// Maximum number of concurrent reads without watches; further ones get 429 [default: no limit]
    #[arg(long, env = "APLOMB_BOX_MAX_REQUESTS_INFLIGHT", value_name = "REQUESTS")]
    pub(crate) max_requests_inflight: Option<usize>,
    /// Maximum number of concurrent writes; further ones get 429 [default: no limit]
    #[arg(long, env = "APLOMB_BOX_MAX_MUTATING_REQUESTS_INFLIGHT", value_name = "REQUESTS")]
    pub(crate) max_mutating_requests_inflight: Option<usize>,
    /// Maximum number of events a watcher may lag behind; a slower one is disconnected
    #[arg(long, env = "APLOMB_BOX_WATCH_BUFFER", default_value_t = 1000, value_name = "EVENTS")]
    pub(crate) watch_buffer: usize,
    /// Authorize requests with the stored Roles and bindings
    #[arg(long, env = "APLOMB_BOX_RBAC")]
    pub(crate) rbac: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) what: SimCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// A Coder server: provisioner keys, daemons, workspace proxies and the rate limit
    Coderd(CoderdArgs),
    /// The Hetzner Cloud API: floating IPs, servers, actions, locks and the rate limit
    Hetzner(HetznerArgs),
}

// The listen address. Not a doc comment: clap would use it as the description of the command.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListenArgs {
    /// Address to serve on; port 0 picks a free one
    #[arg(
        long = "listen",
        env = "APLOMB_SIM_LISTEN",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT"
    )]
    pub(crate) address: SocketAddr,
}

#[derive(Args, Debug)]
pub(crate) struct CoderdArgs {
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// File with one token per line: the token, its user, and the user's role (owner,
    /// organization-admin, template-admin, member) [default: sim-owner-token of admin, an owner]
    #[arg(long, env = "APLOMB_SIM_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Requests per minute, for each user and path; 0 and below mean no limit
    #[arg(long, default_value_t = 512, allow_negative_numbers = true, value_name = "REQUESTS")]
    pub(crate) limit: i64,
    /// Offset of the limiter's windows from the UTC minute
    #[arg(long, default_value = "0s", value_parser = span::parse, value_name = "TIME")]
    pub(crate) offset: Duration,
    /// Version: before 2.32 the limiter counts by address, before 2.36 doubled slashes evade it
    #[arg(long, default_value = "2.36", value_name = "VERSION")]
    pub(crate) version: Version,
    /// Simulate a server without a license for provisioners and proxies
    #[arg(long)]
    pub(crate) unlicensed: bool,
    /// Simulate a server without the paths of paid features
    #[arg(long)]
    pub(crate) agpl: bool,
    /// Deleting a key ends the sessions of its daemons, as in later versions
    #[arg(long)]
    pub(crate) ends_sessions: bool,
    /// Response to users who may not bypass the limiter
    #[arg(long, value_enum, default_value_t = BypassRefusal::Required, value_name = "STATUS")]
    pub(crate) bypass_refusal: BypassRefusal,
    /// Interval of daemon heartbeats
    #[arg(long, default_value = "60s", value_parser = span::parse, value_name = "TIME")]
    pub(crate) heartbeat: Duration,
    /// Name of an organization; the first is the default one [default: coder]
    #[arg(long = "organization", value_name = "NAME")]
    pub(crate) organizations: Vec<String>,
    /// Simulate the pods of provisioners and proxies in this cluster, if it has no kubelet
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Simulate only pods that connect to this URL [default: any]
    #[arg(long = "url", requires = "kubeconfig", value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Duration of jobs, which simulated daemons then always have [default: no jobs]
    #[arg(long, requires = "kubeconfig", value_parser = span::parse, value_name = "TIME")]
    pub(crate) job: Option<Duration>,
    /// Seed of all random values, including keys and tokens [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct HetznerArgs {
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// File with one accepted token per line: the token, then optionally a project and the word readonly
    #[arg(long, env = "APLOMB_SIM_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Requests that a full bucket allows
    #[arg(long, default_value_t = 3600, value_name = "REQUESTS")]
    pub(crate) limit: u64,
    /// Requests a bucket gains per second [default: the limit per hour]
    #[arg(long, value_name = "REQUESTS")]
    pub(crate) refill_per_second: Option<f64>,
    /// Scope of a bucket
    #[arg(long, value_enum, default_value_t = FractionArg::Project)]
    pub(crate) per: FractionArg,
    /// Duration of an action: a fixed one, or a range to choose from
    #[arg(long, default_value = "500ms..1s", value_parser = parse_action_time, value_name = "TIME")]
    pub(crate) action_time: ActionTimeArg,
    /// Rejected requests use up the partly refilled token
    #[arg(long)]
    pub(crate) drain_on_refusal: bool,
    /// Response to assigning an address to the server that already has it
    #[arg(long, value_enum, default_value_t = SameServerAssign::Accepted, value_name = "ANSWER")]
    pub(crate) same_server_assign: SameServerAssign,
    /// Seed of all random values [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BypassRefusal {
    /// Precondition required, as the real server responds
    #[value(name = "428")]
    Required,
    /// Precondition failed, as some documentation describes
    #[value(name = "412")]
    Failed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FractionArg {
    /// All tokens of a project share one
    Project,
    /// Each token has its own
    Token,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SameServerAssign {
    /// 201 with an action that changes nothing
    #[value(name = "ok")]
    Accepted,
    /// 422 `floating_ip_assigned`
    #[value(name = "422")]
    Refused,
}

/// A range, in a type of its own because clap splits a bare range.
#[derive(Clone, Debug)]
pub(crate) struct ActionTimeArg(pub(crate) RangeInclusive<Duration>);

fn parse_action_time(text: &str) -> Result<ActionTimeArg, String> {
    span::range(text).map(ActionTimeArg)
}
