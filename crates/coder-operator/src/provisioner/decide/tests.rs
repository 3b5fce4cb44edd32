//! The decision, one world at a time.

mod blocked;
mod creation;
mod deletion;
mod fixture;
mod rotation;
