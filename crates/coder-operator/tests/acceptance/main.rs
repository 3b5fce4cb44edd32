//! What the Coder operator promises, each promise a test on the box in virtual time, with servers and pods
//! that are simulated. Real time is printed and asserted nowhere; `make coder` shows the figures.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod claims;
mod harness;
mod lab;
mod log_lines;
mod objects;
mod operator;
mod pods;
mod object_state;
mod site;
mod scenario;
mod wire;

mod bypass;
mod crashes;
mod deletion;
mod fleet;
mod foreign_objects;
mod token_finalizers;
mod license;
mod rate_limited;
mod control_planes;
mod proxies;
mod quiet;
mod restart;
mod rotation;
mod secrets;
mod servers;
mod lost_objects;
