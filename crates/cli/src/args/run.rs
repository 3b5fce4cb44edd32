//! The flags of `aplomb run`. Nothing here does anything.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Which operators [default: all]
    #[arg(value_name = "OPERATOR")]
    operators: Vec<OperatorArg>,
    /// Kubeconfig of the cluster; in a pod, its ServiceAccount is used without it
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Base domain of the hostnames that tunnels are given, where their class names none
    #[arg(
        long,
        env = "APLOMB_DOMAIN",
        default_value = "tunnels.example.com",
        value_name = "DOMAIN"
    )]
    pub(crate) domain: String,
    /// Base of the Hetzner Cloud API
    #[arg(
        long,
        env = "APLOMB_HETZNER_ENDPOINT",
        default_value = "https://api.hetzner.cloud/v1",
        value_name = "URL"
    )]
    pub(crate) hetzner_endpoint: String,
    /// File with the API token for every StableEgress without a tokenSecretRef; read again when it
    /// changes
    #[arg(long, env = "APLOMB_HETZNER_TOKEN_FILE", value_name = "FILE")]
    pub(crate) hetzner_token_file: Option<PathBuf>,
    /// Namespace of leases, of Secrets with tokens and of gateways [default: the pod's, or aplomb-system]
    #[arg(long, env = "APLOMB_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Namespace of the pods that prepare nodes [default: all]
    #[arg(long, env = "APLOMB_PODS_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) pods_namespace: Option<String>,
    /// The only namespace of Coder's objects that is looked at [default: all]
    #[arg(long, env = "APLOMB_WATCH_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) watch_namespace: Option<String>,
    /// Address of the page, /status.json, /metrics, /livez, /readyz and /debug; port 0 picks a free one
    #[arg(
        long,
        env = "APLOMB_ADMIN",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS:PORT"
    )]
    pub(crate) admin: SocketAddr,
    /// Act only as the leader of several replicas
    #[arg(
        long,
        env = "APLOMB_LEADER_ELECT",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(crate) leader_elect: bool,
    /// What this replica is called [default: host name and process id]
    #[arg(long, env = "APLOMB_IDENTITY", value_name = "NAME")]
    pub(crate) identity: Option<String>,
    /// Print the settings in force and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    /// How log lines are written to stderr; RUST_LOG says which
    #[arg(long, env = "APLOMB_LOG_FORMAT", default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}

impl RunArgs {
    /// The operators that are named, or all.
    pub(crate) fn operators(&self) -> &[OperatorArg] {
        match self.operators.as_slice() {
            [] => OperatorArg::value_variants(),
            named => named,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum OperatorArg {
    /// Coder's provisioners and workspace proxies, on one budget per server
    Coder,
    /// A floating IP follows a healthy node
    Egress,
    /// HTTP tunnels that are proven to carry traffic
    Tunnel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl fmt::Display for OperatorArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coder => "coder",
            Self::Egress => "egress",
            Self::Tunnel => "tunnel",
        })
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}
