//! The flags of `aplomb sim`. Nothing here does anything.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use aplomb_fake_services::coderd::Version;
use aplomb_fake_services::service::span;
use clap::{Args, Subcommand, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) what: Simulated,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Simulated {
    /// A Coder server: provisioner keys, daemons, workspace proxies and the rate limit
    Coderd(CoderdArgs),
    /// The Hetzner Cloud API: floating IPs, servers, actions, locks and the rate limit
    Hetzner(HetznerArgs),
}

// Where a stand-in serves. No doc comment: clap would take it for what the command does.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Listen {
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
    pub(crate) listen: Listen,
    /// File with one token per line: the token, its user, and the user's role (owner,
    /// organization-admin, template-admin, member) [default: sim-owner-token of admin, an owner]
    #[arg(long, env = "APLOMB_SIM_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Requests a minute, for each user and path; 0 and below is no limit
    #[arg(
        long,
        default_value_t = 512,
        allow_negative_numbers = true,
        value_name = "REQUESTS"
    )]
    pub(crate) limit: i64,
    /// How long after the UTC minute the limiter's windows begin
    #[arg(long, default_value = "0s", value_parser = span::parse, value_name = "TIME")]
    pub(crate) offset: Duration,
    /// Version: before 2.32 the limiter counts addresses, before 2.36 doubled slashes dodge it
    #[arg(long, default_value = "2.36", value_name = "VERSION")]
    pub(crate) version: Version,
    /// Without a licence for provisioners and proxies
    #[arg(long)]
    pub(crate) unlicensed: bool,
    /// Without the paths of paid features
    #[arg(long)]
    pub(crate) agpl: bool,
    /// Deleting a key ends the sessions of its daemons, as later versions do
    #[arg(long)]
    pub(crate) ends_sessions: bool,
    /// Answer to those who may not pass the limiter by
    #[arg(long, value_enum, default_value_t = BypassRefusal::Required, value_name = "STATUS")]
    pub(crate) bypass_refusal: BypassRefusal,
    /// How often daemons say that they live
    #[arg(long, default_value = "60s", value_parser = span::parse, value_name = "TIME")]
    pub(crate) heartbeat: Duration,
    /// Name of an organisation; the first is the default one [default: coder]
    #[arg(long = "organization", value_name = "NAME")]
    pub(crate) organizations: Vec<String>,
    /// Play the pods of provisioners and proxies in this cluster, which has nobody to run them
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Play only pods that talk to this URL [default: any]
    #[arg(long = "url", requires = "kubeconfig", value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// How long the jobs take that played daemons always have [default: none]
    #[arg(long, requires = "kubeconfig", value_parser = span::parse, value_name = "TIME")]
    pub(crate) job: Option<Duration>,
    /// Seed of everything random, keys and tokens too [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct HetznerArgs {
    #[command(flatten)]
    pub(crate) listen: Listen,
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
pub(crate) enum BypassRefusal {
    /// Precondition required, as the server has it
    #[value(name = "428")]
    Required,
    /// Precondition failed, as some documents have it
    #[value(name = "412")]
    Failed,
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
