//! Every kind of Aplomb's operators, with its conditions and reasons. No IO, and nothing here decides
//! anything: what a field means is said in its description, what it does in the operator.
#![forbid(unsafe_code)]

pub mod duration;
pub mod egress;

pub use duration::Span;
pub use egress::{StableEgress, StableEgressSpec, StableEgressStatus};
