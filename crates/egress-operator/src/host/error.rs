//! What can go wrong on a node, in words that name the flag or the capability and what to do.

use std::io;
use std::net::SocketAddr;

/// What went wrong on a node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to hold.
    #[error("no address: name one with --address, or a StableEgress with --stable-egress")]
    NoAddress,
    /// A StableEgress is named and there is no cluster to look it up in.
    #[error("--stable-egress needs a cluster: give --kubeconfig FILE, or run it in a pod")]
    NoCluster,
    /// Tables of the kernel's own.
    #[error(
        "--table {0} is one of the kernel's own or out of range: take one from 1 to 252, or above 255"
    )]
    Table(u32),
    /// No such interface.
    #[error("there is no interface {0:?}: `ip link` lists them; correct --interface")]
    NoInterface(String),
    /// None can be chosen.
    #[error("no interface has a default route: name one with --interface")]
    NoDefaultRoute,
    /// The capability is missing.
    #[error(
        "the kernel does not allow to change {0}: the capability NET_ADMIN is missing; add it under \
         securityContext.capabilities.add, or run as root"
    )]
    NotPermitted(String),
    /// Something else is in the way.
    #[error(
        "{0} cannot be added, since something else is in its place: choose another --table or --priority"
    )]
    Occupied(String),
    /// The kernel refused.
    #[error("{0} cannot be changed: {1}")]
    Refused(String, io::Error),
    /// What is there cannot be read.
    #[error("what the kernel has cannot be read: {0}")]
    Unread(String),
    /// No socket to the kernel.
    #[error("no netlink socket: {0}")]
    Socket(io::Error),
    /// The endpoint cannot be served.
    #[error("--listen {0} cannot be used: {1}")]
    Listen(SocketAddr, io::Error),
}
