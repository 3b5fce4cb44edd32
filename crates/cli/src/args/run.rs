//! The flags of `aplomb run`. Contains no logic.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Operators to run [default: all]
    #[arg(value_name = "OPERATOR")]
    operators: Vec<OperatorArg>,
    /// Kubeconfig of the cluster; not needed in a pod with a ServiceAccount
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Base domain of assigned hostnames, for classes without a domain
    #[arg(
        long,
        env = "APLOMB_DOMAIN",
        default_value = "tunnels.example.com",
        value_name = "DOMAIN"
    )]
    pub(crate) domain: String,
    /// Base URL of the Hetzner Cloud API
    #[arg(
        long,
        env = "APLOMB_HETZNER_ENDPOINT",
        default_value = "https://api.hetzner.cloud/v1",
        value_name = "URL"
    )]
    pub(crate) hetzner_endpoint: String,
    /// File with the API token for each StableEgress without a tokenSecretRef; read again when it
    /// changes
    #[arg(long, env = "APLOMB_HETZNER_TOKEN_FILE", value_name = "FILE")]
    pub(crate) hetzner_token_file: Option<PathBuf>,
    /// Namespace of leases, token Secrets and gateways [default: the pod's, or aplomb-system]
    #[arg(long, env = "APLOMB_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Namespace of the pods that prepare nodes [default: all]
    #[arg(long, env = "APLOMB_PODS_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) pods_namespace: Option<String>,
    /// The only namespace in which Coder objects are reconciled [default: all]
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
    /// Use leader election: only one of several replicas is active
    #[arg(
        long,
        env = "APLOMB_LEADER_ELECT",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(crate) leader_elect: bool,
    /// Name of this replica [default: host name and process id]
    #[arg(long, env = "APLOMB_IDENTITY", value_name = "NAME")]
    pub(crate) identity: Option<String>,
    /// Print the effective settings and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Format of log lines on stderr; RUST_LOG sets the levels
    #[arg(long, env = "APLOMB_LOG_FORMAT", default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}

impl RunArgs {
    /// The named operators, or all.
    pub(crate) fn operators(&self) -> &[OperatorArg] {
        match self.operators.as_slice() {
            [] => OperatorArg::value_variants(),
            named => named,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum OperatorArg {
    /// Coder's provisioners and workspace proxies, with one rate limit per server
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
