//! The command line of `aplomb egress-host`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::LogFormat;

#[derive(Args, Debug)]
pub(crate) struct EgressHostArgs {
    /// Address to put on the interface; may be given several times
    #[arg(
        long,
        env = "APLOMB_EGRESS_ADDRESS",
        value_name = "IP",
        value_delimiter = ','
    )]
    pub(crate) address: Vec<IpAddr>,
    /// StableEgress of the cluster to take the address from; may be given several times
    #[arg(
        long,
        env = "APLOMB_EGRESS_STABLE_EGRESS",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) stable_egress: Vec<String>,
    /// Interface to put it on [default: the one with the default route]
    #[arg(long, env = "APLOMB_EGRESS_INTERFACE", value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Gateway of the link [default: 172.31.1.1, or fe80::1 for IPv6]
    #[arg(long, env = "APLOMB_EGRESS_GATEWAY", value_name = "IP")]
    pub(crate) gateway: Option<IpAddr>,
    /// Routing table of the first address; each further one has the next
    #[arg(
        long,
        env = "APLOMB_EGRESS_TABLE",
        value_name = "NUMBER",
        default_value_t = 2010
    )]
    pub(crate) table: u32,
    /// Priority of the rules
    #[arg(
        long,
        env = "APLOMB_EGRESS_PRIORITY",
        value_name = "NUMBER",
        default_value_t = 2010
    )]
    pub(crate) priority: u32,
    /// Address to serve /livez and /readyz on
    #[arg(
        long,
        env = "APLOMB_EGRESS_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9963"
    )]
    pub(crate) listen: SocketAddr,
    /// Kubeconfig for --stable-egress [default: that of the pod, or of kubectl]
    #[arg(long, env = "APLOMB_EGRESS_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How log lines look
    #[arg(long, env = "APLOMB_LOG_FORMAT", default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}
