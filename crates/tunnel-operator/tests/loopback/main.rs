//! Operator, gateway and agents together without fakes: real iroh and real HTTP on loopback, with an API
//! server in this process.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod copied_details;
mod exposed;
mod lab;
mod service;
