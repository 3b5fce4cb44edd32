//! Tests of the gateway's control side on the box in virtual time, one per promise, with fake sessions.
//! Limits are asserted in virtual time; real time does not matter.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod lab;
mod replica;

mod acknowledgments;
mod crashes;
mod idle;
