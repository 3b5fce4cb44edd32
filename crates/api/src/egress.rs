//! `StableEgress`: a floating IP that follows a healthy node.

mod constants;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod health;
mod schema;
#[allow(unreachable_pub, reason = "KubeSchema copies a struct into a function, pub and all")]
mod spec;
mod status;

pub use constants::{MoveCause, annotations, conditions, labels, reasons};
pub use health::{GraceSpec, HealthSignal, HealthSpec, ProbeSpec};
pub use spec::{FloatingIpRef, HoldSpec, PinSpec, PreparedSpec, StableEgress, StableEgressSpec, TokenSecretRef};
pub use status::{
    BudgetLevel, BudgetStatus, CandidateStatus, MoveStages, MoveStatus, StableEgressStatus, SuspectStatus, Suspicion,
};
