//! The Coder operator: provisioner daemons and workspace proxies, with one budget per server.
//!
//! `provisioner` and `proxy` each observe a world, decide on one next step and take it. Nothing but
//! `client` speaks to coderd, nothing but `server` calls it, and every call of `server` has passed the
//! gate of its object and the budget of its identity.
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
