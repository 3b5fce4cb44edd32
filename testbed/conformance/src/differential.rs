//! Random differential runs: one seeded sequence of operations carried out on the real
//! kube-apiserver and on the box, every answer, list and watch event compared.
//!
//! Where they differ the real server is right. Nothing here knows how a server works inside.

pub mod catalog;
pub mod diff;
pub mod generate;
pub mod mask;
pub mod op;
pub mod peer;
pub mod report;
mod run;
pub mod side;
pub mod track;
pub mod watches;

pub use run::{Plan, run};
