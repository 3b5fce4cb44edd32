//! The Coder operator: provisioner daemons and workspace proxies, with one rate limiter per server.
//!
//! `provisioner` and `workspace_proxy` each observe the state, decide on one next step and run it. Only
//! `client` implements coderd's API, and only `server` calls it, after the backoff of the object
//! and the rate limiter of the identity.
#![forbid(unsafe_code)]

mod access;
mod blocked;
mod budget;
mod children_state;
mod client;
mod conditions;
mod context;
mod gate;
mod operator;
mod pods;
mod provisioner;
mod server;
pub mod telemetry;
mod token_secrets;
mod views;
mod watches;
mod workspace_proxy;

pub use operator::{CoderDeps, CoderSettings, operator, run};
