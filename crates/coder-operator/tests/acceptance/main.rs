//! Guarantees of the Coder operator, one test each, in virtual time with a simulated API server,
//! servers and pods. Real time is printed and asserted nowhere; `make coder` shows the figures.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod claims;
mod harness;
mod lab;
mod log_lines;
mod object_state;
mod objects;
mod operator;
mod pods;
mod scenario;
mod site;
mod wire;

mod bypass;
mod control_planes;
mod crashes;
mod deletion;
mod fleet;
mod foreign_objects;
mod license;
mod lost_objects;
mod proxies;
mod quiet;
mod rate_limited;
mod restart;
mod rotation;
mod secrets;
mod servers;
mod token_finalizers;
