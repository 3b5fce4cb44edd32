//! The data plane of tunnels: HTTP in, iroh out. It serves what its caches say and tells what it
//! serves; it decides nothing about tunnels.
#![forbid(unsafe_code)]

pub mod dial;
pub mod reason;
pub mod table;
