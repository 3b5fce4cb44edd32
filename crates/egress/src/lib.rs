//! The egress operator: a floating IP follows a healthy node.
//!
//! `observe` gathers a [`world::World`], `decide` turns it into a plan with one next step, `act` takes
//! that step, and the three go round until nothing is left to do. Nothing here but `client` and
//! `cloud` may speak to the provider, and nothing but `decide` may choose a node.
#![forbid(unsafe_code)]

pub mod client;
pub mod cloud;
pub mod decide;
pub mod forecast;
pub mod probe;
pub mod selector;
pub mod telemetry;
pub mod transport;
pub mod vantage;
pub mod world;
