//! The flags of `aplomb trace` and `aplomb status`. Contains no logic.

use std::time::Duration;

use aplomb_api::DurationString;
use clap::{Args, ValueEnum};

use super::ClusterArgs;

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
