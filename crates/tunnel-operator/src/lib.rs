//! The operator of HTTPProxy and Connector: from `kubectl apply` to proven traffic. It writes the children,
//! decides whether connectors are online and proves tunnels through the gateways. It does not carry traffic.
#![forbid(unsafe_code)]

mod act;
mod children;
mod classes;
mod client;
mod connector;
mod context;
mod controller;
mod decide;
mod evidence;
mod gc;
mod heartbeat;
mod liveness;
mod observe;
mod operator;
mod probe;
mod report;
mod sessions;
mod state;
mod telemetry;
mod tls;
mod unowned_gateways;
mod verify;
mod views;
mod world;

pub use client::{HttpProbeClient, ProbeClient, ProbeError, ProbeRequest, ProbeResponse, build_request};
pub use operator::{TunnelDeps, TunnelSettings, operator, run};
pub use telemetry::TunnelMetrics;
