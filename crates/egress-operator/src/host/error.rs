//! Errors of the node agent. Each names the flag or capability and what to do.

use std::io;
use std::net::SocketAddr;

/// An error of the node agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No address is configured.
    #[error("no address: set --address or --stable-egress")]
    NoAddress,
    /// A StableEgress is named, but no cluster to read it from is configured.
    #[error("--stable-egress needs a cluster: set --kubeconfig, or run in a pod")]
    NoCluster,
    /// The table is reserved by the kernel.
    #[error("--table {0} is reserved by the kernel or out of range: use 1 to 252, or a number above 255")]
    Table(u32),
    /// The interface does not exist.
    #[error("interface {0:?} does not exist: list interfaces with `ip link` and correct --interface")]
    NoInterface(String),
    /// No interface can be chosen.
    #[error("no interface has a default route: set --interface")]
    NoDefaultRoute,
    /// The capability is missing.
    #[error("cannot change {0}: add NET_ADMIN under securityContext.capabilities.add, or run as root")]
    NotPermitted(String),
    /// Another entry is in the way.
    #[error("cannot add {0}: another entry is in its place; choose another --table or --priority")]
    Occupied(String),
    /// The kernel returned an error.
    #[error("cannot change {0}: {1}")]
    Refused(String, io::Error),
    /// The present entries cannot be read.
    #[error("cannot read network state: {0}")]
    Unread(String),
    /// No netlink socket.
    #[error("cannot open a netlink socket: {0}")]
    Socket(io::Error),
    /// The endpoint cannot listen.
    #[error("cannot listen on {0} (--listen): {1}")]
    Listen(SocketAddr, io::Error),
}
