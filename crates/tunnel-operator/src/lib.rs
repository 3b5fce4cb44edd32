//! The operator of HTTPProxy and Connector: from `kubectl apply` to proven traffic. It writes the
//! children, judges connectors and proves tunnels through the gateways; it carries no traffic itself.
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
mod state;
mod observe;
mod context;
mod operator;
mod unowned_gateways;
mod probe;
mod heartbeat;
mod report;
mod sessions;
mod gc;
mod telemetry;
mod tls;
mod verify;
mod views;
mod world;

pub use client::{HttpProbeClient, ProbeClient, ProbeError, ProbeRequest, ProbeResponse, build_request};
pub use operator::{TunnelDeps, TunnelSettings, operator, run};
pub use telemetry::TunnelMetrics;
