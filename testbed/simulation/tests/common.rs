//! An operator as its author would write it with kube-rs, and the users who keep it busy.
//!
//! Shared by the tests and by the `seeds` example, which include it with `#[path]`.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each includer is a crate of its own and uses its part"
)]

pub mod operator;
pub mod scenario;
