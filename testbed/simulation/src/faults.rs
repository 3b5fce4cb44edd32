//! Faults between a client and an API server: the box or a real one.
//!
//! A [`Faults`] per client identity is a tower layer. What it does is scripted ([`Rule`]: by time
//! or by the n-th request that matches) or drawn from a seed ([`Sampler`]), and every fault is a
//! line of the trace. Restarts of the server are shared by all clients ([`Outages`]).
//!
//! All of it also works in front of a real server, where "committed" faults let the real server
//! commit. It must not know anything about how the server behind works.

mod answer;
mod fault;
mod layer;
mod outage;
mod rule;
mod sampler;
mod stale;
mod stream;
mod target;
#[cfg(test)]
mod tests;

pub use answer::Body;
pub use fault::{Fault, Latency, Stale, StaleReads, WatchFault};
pub use layer::{FaultService, Faults};
pub use outage::Outages;
pub use rule::{Rule, When};
pub use sampler::Sampler;
pub(crate) use stream::body_lines;
pub use target::{Match, Target};
