//! What the box endures: kills at any moment, a disk without room, a thousand watchers.
//!
//! The box is a process here, as a person runs it, reached over TLS like any API server. Nothing in
//! this crate knows its code; what it promises is checked from outside.
#![forbid(unsafe_code)]
#![allow(missing_debug_implementations, reason = "connections have none")]

pub mod full_disk;
pub mod kills;
pub mod process;
pub mod watchers;
pub mod wire;
