//! What the runtime promises, each promise a test: on the box in virtual time, and where it is named
//! `real_`, on a real kube-apiserver (ignored by default; `make test` runs those).
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]

mod admin;
mod events;
mod leaders;
mod replica;
