//! The data plane of tunnels: HTTP in, iroh out. It serves and reports what its caches contain, and makes no
//! decisions about tunnels.
#![forbid(unsafe_code)]

pub mod access;
pub mod certificates;
pub mod control;
pub mod gateway;
pub mod limits;
pub mod origin;
mod path;
pub mod proxy;
pub mod reason;
pub mod routing;
pub mod sessions;
pub mod telemetry;

pub use gateway::{GatewayError, GatewaySettings, run};
