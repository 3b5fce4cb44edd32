//! The flags of `aplomb box`. Nothing here does anything.

use std::net::SocketAddr;
use std::path::PathBuf;

use aplomb_apiserver::http::Limits;
use clap::Args;

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
    /// Directory to keep objects, certificates and tokens in; a restart goes on from it [default: in
    /// memory, gone at the end]
    #[arg(long, env = "APLOMB_BOX_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// File to append an audit log to, in the audit.k8s.io/v1 format
    #[arg(long, env = "APLOMB_BOX_AUDIT_LOG", value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Connections at once; one more is closed
    #[arg(
        long,
        env = "APLOMB_BOX_MAX_CONNECTIONS",
        default_value_t = Limits::default().connections,
        value_name = "CONNECTIONS"
    )]
    pub(crate) max_connections: usize,
    /// Reading requests at once, watches aside; one more is answered 429 [default: no limit]
    #[arg(
        long,
        env = "APLOMB_BOX_MAX_REQUESTS_INFLIGHT",
        value_name = "REQUESTS"
    )]
    pub(crate) max_requests_inflight: Option<usize>,
    /// Writing requests at once; one more is answered 429 [default: no limit]
    #[arg(
        long,
        env = "APLOMB_BOX_MAX_MUTATING_REQUESTS_INFLIGHT",
        value_name = "REQUESTS"
    )]
    pub(crate) max_mutating_requests_inflight: Option<usize>,
    /// Events a watcher may be behind; one that reads more slowly is cut off
    #[arg(
        long,
        env = "APLOMB_BOX_WATCH_BUFFER",
        default_value_t = 1000,
        value_name = "EVENTS"
    )]
    pub(crate) watch_buffer: usize,
    /// Authorise requests by the stored Roles and bindings
    #[arg(long, env = "APLOMB_BOX_RBAC")]
    pub(crate) rbac: bool,
}
