//! Virtual clusters and what runs in them, through their clients.
//!
//! `hour` is a program of its own, because it measures real time and the clusters of one process
//! take turns. Both use `common`.

mod actors;
mod common;
mod faults;
mod furnishing;
mod kube_rs;
mod quota;
mod upkeep;
mod world;
