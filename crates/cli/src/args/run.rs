//! The flags of `aplomb run`, `aplomb gateway` and `aplomb egress-host`. Contains no logic.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use aplomb_api::operators::{CODER, EGRESS, Operator, TUNNEL};
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
    /// File with the API token for each StableEgress without a tokenSecretRef; read again when it changes
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

impl OperatorArg {
    pub(crate) fn operator(self) -> Operator {
        match self {
            Self::Coder => CODER,
            Self::Egress => EGRESS,
            Self::Tunnel => TUNNEL,
        }
    }
}

impl fmt::Display for OperatorArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operator().name)
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

#[derive(Args, Debug)]
pub(crate) struct GatewayArgs {
    /// Kubeconfig of the cluster; not needed in a pod with a ServiceAccount
    #[arg(long, env = "APLOMB_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Address of the public HTTP listener; port 0 picks a free one
    #[arg(
        long,
        env = "APLOMB_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS:PORT"
    )]
    pub(crate) listen: SocketAddr,
    /// Address of the public HTTPS listener
    #[arg(long, env = "APLOMB_LISTEN_TLS", value_name = "ADDRESS:PORT")]
    pub(crate) listen_tls: Option<SocketAddr>,
    /// IP address at which the operator reaches the listeners [default: POD_IP, or the one they are bound to]
    #[arg(long, env = "APLOMB_ADVERTISE", value_name = "ADDRESS")]
    pub(crate) advertise: Option<IpAddr>,
    /// Address of /metrics, /livez, /readyz and /debug
    #[arg(long, env = "APLOMB_ADMIN", value_name = "ADDRESS:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Namespace of the GatewayReplicas [default: the pod's, or aplomb-system]
    #[arg(long, env = "APLOMB_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Name of this replica [default: host name and port]
    #[arg(long, env = "APLOMB_IDENTITY", value_name = "NAME")]
    pub(crate) identity: Option<String>,
    /// File of the iroh key, created if it does not exist [default: a new key at each start]
    #[arg(long, env = "APLOMB_KEY_FILE", value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Address of the QUIC socket for connections to agents [default: any]
    #[arg(long, env = "APLOMB_QUIC", value_name = "ADDRESS:PORT")]
    pub(crate) quic: Option<SocketAddr>,
    /// Relay to use in addition to those of the ConnectorClasses; may be repeated
    #[arg(long, env = "APLOMB_RELAYS", value_delimiter = ',', value_name = "URL")]
    pub(crate) relay: Vec<String>,
    /// Send X-Aplomb-Reason and X-Aplomb-Revision
    #[arg(long, env = "APLOMB_HEADERS", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub(crate) headers: bool,
    /// Print each request to standard output as JSON
    #[arg(long, env = "APLOMB_ACCESS_LOG")]
    pub(crate) access_log: bool,
    /// Hostname of the tunnel for requests whose Host is an IP address or localhost
    #[arg(long, env = "APLOMB_DEFAULT_HOST", value_name = "HOST")]
    pub(crate) default_host: Option<String>,
    /// Network of proxies with a trusted X-Forwarded-For; may be repeated
    #[arg(long, env = "APLOMB_TRUSTED_PROXIES", value_delimiter = ',', value_name = "CIDR")]
    pub(crate) trusted_proxy: Vec<ipnet::IpNet>,
    /// Private network that backends of every ConnectorClass may reach; may be repeated
    #[arg(long, env = "APLOMB_ALLOW_NETWORKS", value_delimiter = ',', value_name = "CIDR")]
    pub(crate) allow_network: Vec<ipnet::IpNet>,
    /// Network that backends may not reach, even if a ConnectorClass allows it; may be repeated
    #[arg(long, env = "APLOMB_DENY_NETWORKS", value_delimiter = ',', value_name = "CIDR")]
    pub(crate) deny_network: Vec<ipnet::IpNet>,
    /// PEM file of authorities for https origins, in addition to the system's
    #[arg(long, env = "APLOMB_ORIGIN_CA", value_name = "FILE")]
    pub(crate) origin_ca: Option<PathBuf>,
    /// Seconds without a heartbeat before this replica is considered gone
    #[arg(
        long,
        env = "APLOMB_LEASE_SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(3..=3600),
        value_name = "SECONDS"
    )]
    pub(crate) lease_seconds: u32,
    /// Seconds that open requests have at shutdown
    #[arg(long, env = "APLOMB_DRAIN_SECONDS", default_value_t = 30, value_name = "SECONDS")]
    pub(crate) drain_seconds: u64,
    /// Print the effective settings and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Format of log lines on stderr; RUST_LOG sets the levels
    #[arg(long, env = "APLOMB_LOG_FORMAT", default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}

#[cfg(target_os = "linux")]
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
