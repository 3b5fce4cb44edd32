//! The decision, one world at a time.

mod departure;
mod given;
mod hindrances;
mod registering;
mod replacing;
mod scene;
