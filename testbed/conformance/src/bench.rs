//! Figures of this machine: the box and a real kube-apiserver, side by side in one run.
//!
//! Both are processes of their own, reached over TLS on loopback by the same client on one
//! connection, one request after another. A slice of one server alternates with a slice of the
//! other, so that a busy machine slows both, and the one that is not asked does nothing meanwhile.

mod answer;
mod connection;
mod cores;
mod load;
mod memory;
mod processes;
mod servers;

pub use cores::share_one_core;
pub use load::{Load, Rates, VERBS};
pub use memory::{Memory, resident};
pub use processes::Resting;
pub use servers::{Peer, serve, start};
