//! The operator of HTTPProxy and Connector: from `kubectl apply` to proven traffic. It writes the children,
//! decides whether connectors are online and proves tunnels through the gateways. It does not carry traffic.
#![forbid(unsafe_code)]

mod act;
mod children;
mod classes;
mod client;
mod connector;
mod controller;
mod decide;
mod evidence;
mod liveness;
mod memory;
mod observe;
mod office;
mod operator;
mod plain;
mod prove;
mod pulse;
mod report;
mod sessions;
mod sweep;
mod telemetry;
mod tls;
mod verify;
mod views;
mod world;

pub use client::{HttpProbeClient, ProbeClient, ProbeError, ProbeRequest, ProbeResponse, request};
pub use operator::{TunnelDeps, TunnelSettings, operator, run};
pub use telemetry::TunnelMetrics;
