//! Guarantees of the egress operator, one test each, in virtual time with a simulated API server,
//! provider and nodes. Real time is printed and asserted nowhere; `make egress` shows the figures.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod lab;
mod label_watch;
mod nodes;
mod operator;
mod reachability;
mod valve;

mod cilium;
mod conditions;
mod crash_detection;
mod crashes;
mod foreign_nodes;
mod handover;
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
mod token_file;
mod tokens;
