//! What the control side of the gateway promises, each promise a test on the box in virtual time, with
//! stand-ins for sessions. Limits of virtual time are asserted; there is no real time here.
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

mod lab;
mod replica;

mod acknowledgments;
mod crashes;
mod idle;
