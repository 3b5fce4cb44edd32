//! Tests of the tunnel operator, one per promise, on the box in virtual time. Tests named `real_` run the
//! same against a real kube-apiserver, with limits that a noisy machine can meet.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod agent;
mod answers;
mod gateway;
mod lab;
mod net;
mod operator;
mod replica;
mod system;

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
