//! The flags of `aplomb egress-host`. Contains no logic.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::LogFormat;

#[derive(Args, Debug)]
pub(crate) struct EgressHostArgs {
    /// Address to add to the interface; may be repeated
    #[arg(long, env = "APLOMB_EGRESS_ADDRESS", value_name = "IP", value_delimiter = ',')]
    pub(crate) address: Vec<IpAddr>,
    /// StableEgress to take the address from; may be repeated
    #[arg(
        long,
        env = "APLOMB_EGRESS_STABLE_EGRESS",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) stable_egress: Vec<String>,
    /// Interface for the addresses [default: the one with the default route]
    #[arg(long, env = "APLOMB_EGRESS_INTERFACE", value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Gateway of the link [default: 172.31.1.1, or fe80::1 for IPv6]
    #[arg(long, env = "APLOMB_EGRESS_GATEWAY", value_name = "IP")]
    pub(crate) gateway: Option<IpAddr>,
    /// Routing table of the first address; further addresses use the next ones
    #[arg(long, env = "APLOMB_EGRESS_TABLE", value_name = "NUMBER", default_value_t = 2010)]
    pub(crate) table: u32,
    /// Priority of the routing rules
    #[arg(long, env = "APLOMB_EGRESS_PRIORITY", value_name = "NUMBER", default_value_t = 2010)]
    pub(crate) priority: u32,
    /// Address to serve /livez and /readyz on
    #[arg(
        long,
        env = "APLOMB_EGRESS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9963"
    )]
    pub(crate) listen: SocketAddr,
    /// Kubeconfig for --stable-egress [default: kubectl's, or the pod's ServiceAccount]
    #[arg(long, env = "APLOMB_EGRESS_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Format of log lines
    #[arg(long, env = "APLOMB_LOG_FORMAT", default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}
