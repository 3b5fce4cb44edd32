//! `StableEgress`: a floating IP that follows a healthy node.

#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod health;
mod shapes;
#[allow(
    unreachable_pub,
    reason = "KubeSchema copies a struct into a function, pub and all"
)]
mod spec;
mod status;
mod words;

pub use health::{Graces, Health, Probe, Signal};
pub use spec::{
    FloatingIpRef, Hold, Pin, Prepared, StableEgress, StableEgressSpec, TokenSecretRef,
};
pub use status::{
    BudgetLevel, BudgetStatus, CandidateStatus, Move, StableEgressStatus, Stages, Suspect,
    Suspicion,
};
pub use words::{Cause, annotations, conditions, labels, reasons};
