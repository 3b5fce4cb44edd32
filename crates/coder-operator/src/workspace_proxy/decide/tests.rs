//! The decision, one world at a time.

mod deletion;
mod unmanaged;
mod blocked;
mod registering;
mod replacing;
mod fixture;
