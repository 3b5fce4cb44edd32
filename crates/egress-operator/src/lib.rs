//! The egress operator: a floating IP follows a healthy node.
//!
//! `observe` gathers a [`world::Observed`], `decide` turns it into a plan with one next step, `act` takes
//! that step, and the three go round until nothing is left to do. Nothing here but `client` and
//! `cloud` may speak to the provider, and nothing but `decide` may choose a node.
#![forbid(unsafe_code)]

mod act;
pub mod client;
pub mod hcloud;
mod controller;
pub mod decide;
pub mod forecast;
#[cfg(target_os = "linux")]
pub mod host;
mod node_filter;
mod state;
mod observe;
mod context;
pub mod operator;
pub mod probe;
pub mod selector;
pub mod telemetry;
pub mod peer_reports;
mod views;
pub mod world;

pub use operator::{EgressDeps, EgressSettings, operator, run};
