//! The flags of `aplomb box`. Contains no logic.

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
