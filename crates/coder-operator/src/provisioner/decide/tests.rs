//! The decision, one world at a time.

mod creation;
mod deletion;
mod blocked;
mod rotation;
mod fixture;
