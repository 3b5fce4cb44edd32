//! What the tunnel operator promises, each promise a test on the box in virtual time. Those called `real_`
//! are the same before a real kube-apiserver, with limits that a noisy machine can keep.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod agent;
mod answers;
mod gateway;
mod lab;
mod net;
mod operator;
mod system;
mod replica;

mod arrivals;
mod busy;
mod children;
mod conflicts;
mod connectors;
mod crashes;
mod flaps;
mod hostnames;
mod idle;
mod listing;
mod networks;
mod other_writer;
mod sweeps;
