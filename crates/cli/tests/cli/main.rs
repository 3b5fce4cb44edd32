//! The real binary as a process, against a box of its own: one program, because linking nine costs more than running them.

#[path = "../common/process.rs"]
mod process;

mod boxed;
mod crds;
mod demo;
mod egress_host;
mod errors;
mod get;
mod help;
mod relay;
mod status;
mod trace;
