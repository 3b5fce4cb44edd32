//! The egress operator: a floating IP follows a healthy node.
//!
//! `observe` collects a [`egress::Observed`], `decide` turns it into a plan with one next step, `act` runs that step,
//! and the three repeat until no step is left. Only `hcloud` may call the provider, and only `decide` may elect a node.
#![forbid(unsafe_code)]

mod act;
mod context;
mod controller;
pub mod decide;
pub mod egress;
pub mod hcloud;
mod node_filter;
mod observe;
pub mod operator;
pub mod peer_reports;
pub mod probe;
mod state;
pub mod telemetry;
mod views;

pub use operator::{EgressDeps, EgressSettings, operator, run};
