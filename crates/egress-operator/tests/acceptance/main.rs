//! Guarantees of the egress operator, one test each, in virtual time with a simulated API server,
//! provider and nodes. Real time is printed and asserted nowhere; `make egress` shows the figures.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod lab;
mod nodes;
mod operator;
mod reach;
mod sight;
mod valve;

mod cilium;
mod crashes;
mod handover;
mod honesty;
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
mod strangers;
mod token_file;
mod tokens;
mod toy;
