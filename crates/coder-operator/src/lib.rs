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
mod token_secrets;
pub mod object;
mod context;
mod operator;
mod pods;
mod provisioner;
mod workspace_proxy;
pub mod pushback;
mod conditions;
mod children_state;
pub mod server;
pub mod telemetry;
mod times;
mod views;
mod watches;

pub use operator::{CoderDeps, CoderSettings, operator, run};
