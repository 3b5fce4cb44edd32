//! The decision, one world at a time.

mod blocked;
mod deletion;
mod fixture;
mod registering;
mod replacing;
mod unmanaged;
