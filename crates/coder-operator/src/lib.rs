//! The Coder operator: provisioner daemons and workspace proxies, with one rate limiter per server.
//!
//! `provisioner` and `proxy` each observe the state, decide on one next step and run it. Only
//! `client` implements coderd's API, and only `server` calls it, after the backoff of the object
//! and the rate limiter of the identity.
#![forbid(unsafe_code)]

mod access;
pub mod budget;
mod bypass;
pub mod client;
mod ending;
pub mod gate;
mod hindrance;
mod identity;
mod keeper;
pub mod object;
mod office;
mod operator;
mod pods;
mod provisioner;
mod proxy;
pub mod pushback;
mod said;
mod seen;
pub mod server;
pub mod telemetry;
mod times;
mod views;
mod wiring;

pub use operator::{CoderDeps, CoderSettings, operator, run};
