//! `StableEgress`: a floating IP that follows a healthy node.

mod spec;
mod status;
mod words;

pub use spec::{
    FloatingIpRef, Graces, Health, Hold, Pin, Prepared, Probe, Signal, StableEgress,
    StableEgressSpec, TokenSecretRef,
};
pub use status::{
    BudgetLevel, BudgetStatus, CandidateStatus, Move, StableEgressStatus, Stages, Suspect,
    Suspicion,
};
pub use words::{Cause, annotations, conditions, labels, reasons};
