//! The decision, one world at a time.

mod creation;
mod departure;
mod hindrances;
mod rotation;
mod scene;
