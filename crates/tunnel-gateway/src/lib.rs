//! The data plane of tunnels: HTTP in, iroh out. It serves and reports what its caches contain, and makes no
//! decisions about tunnels.
#![forbid(unsafe_code)]

pub mod access;
mod act;
pub mod address;
pub mod certificates;
pub mod control;
mod controller;
pub mod decide;
pub mod dial;
mod filter;
pub mod gateway;
pub mod guard;
mod interest;
pub mod limits;
mod listing;
mod memory;
mod observe;
pub mod office;
mod pace;
mod path;
mod pool;
pub mod proxy;
pub mod reason;
pub mod route;
pub mod sessions;
pub mod table;
pub mod telemetry;
pub mod views;
pub mod world;

pub use gateway::{GatewayError, GatewaySettings, run};
