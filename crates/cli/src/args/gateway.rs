//! The flags of `aplomb gateway`. Contains no logic.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::LogFormat;

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
    /// IP address at which the operator reaches the listeners [default: POD_IP, or the one they are
    /// bound to]
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
    #[arg(
        long,
        env = "APLOMB_HEADERS",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
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
    /// Private network that backends of every ConnectorClass may reach; may be
    /// repeated
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
