//! What the egress operator promises, each promise a test on the box in virtual time, with a provider
//! and nodes that are simulated. Real time is printed and asserted nowhere; `make egress` shows the
//! figures.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod lab;
mod nodes;
mod operator;
mod reachability;
mod label_watch;
mod valve;

mod cilium;
mod crashes;
mod handover;
mod conditions;
mod moves;
mod peers;
mod planned;
mod pods;
mod published;
mod quiet;
mod refusals;
mod rules;
mod stale;
mod starvation;
mod storms;
mod foreign_nodes;
mod token_file;
mod tokens;
mod crash_detection;
