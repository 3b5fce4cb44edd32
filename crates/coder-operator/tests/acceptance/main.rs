//! Guarantees of the Coder operator, one test each, in virtual time with a simulated API server,
//! servers and pods. Real time is printed and asserted nowhere; `make coder` shows the figures.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod claims;
mod harness;
mod lab;
mod lines;
mod objects;
mod operator;
mod pods;
mod shown;
mod site;
mod story;
mod wire;

mod bypass;
mod crashes;
mod deletion;
mod fleet;
mod foreign;
mod kept;
mod licence;
mod limited;
mod planes;
mod proxies;
mod quiet;
mod restart;
mod rotation;
mod secrets;
mod servers;
mod vanish;
