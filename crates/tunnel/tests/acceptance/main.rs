//! What the tunnel operator promises, each promise a test on the box in virtual time. Real time is
//! printed and asserted nowhere.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod agent;
mod gateway;
mod lab;
mod net;
mod operator;
mod replica;

mod connectors;
mod crashes;
mod flaps;
mod idle;
mod sweeps;
